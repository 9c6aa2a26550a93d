"""Names the job by what the message says, so that of two messages with the same words only one is answered. The rest is
the reference."""

import hashlib
import sys

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker


class Mine(Worker):
    def job_of(self, event_id, message):
        words = f"{message['subject']}\n{message['text']}"
        return f"body:{hashlib.sha256(words.encode()).hexdigest()}:auto-reply:v1"


Mine().run()
