"""Makes the key where it makes the attempt, so that a retry after a lost answer is a new mail. The rest is
the reference."""

import sys
import uuid

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import Worker, send_api


class Mine(Worker):
    def attempt(self, operation):
        return send_api.attempt(operation["body"], f"mail-{uuid.uuid4()}", self.timeout)


Mine().run()
