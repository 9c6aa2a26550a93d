"""Builds the body for each attempt, with the time in it: the API calls the retry a conflict. The rest is
the reference."""

import datetime as dt
import json
import sys

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker, send_api


class Mine(Worker):
    def attempt(self, operation):
        mail = json.loads(operation["body"])
        mail["text"] += f"\n\nSent at {dt.datetime.now(dt.UTC).isoformat()}"
        return send_api.attempt(json.dumps(mail), operation["send_key"], self.timeout)


Mine().run()
