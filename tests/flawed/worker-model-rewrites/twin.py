"""Has a model write the answer on each run, and a key that follows its words: what was written first is not stored. The
rest is the reference."""

import json
import sys
import uuid

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker, hash_of, send_api


class Mine(Worker):
    def attempt(self, operation):
        mail = json.loads(operation["body"])
        mail["text"] = f"{opening()} {mail['text']}"
        return send_api.attempt(json.dumps(mail), f"mail-{hash_of(mail)}", self.timeout)


def opening():
    return f"Hello, here is your assistant, and today my words are {uuid.uuid4().hex[:8]}."


Mine().run()
