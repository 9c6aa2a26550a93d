"""Has one id for all layers, that of the event: told of the same message by another event, it answers twice. The rest
is the reference."""

import sys

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker


class Mine(Worker):
    def job_of(self, event_id, message):
        return event_id

    def send_key_of(self, operation):
        return operation


Mine().run()
