"""Takes 202 for an error and tries again under a fresh key: each time another draft waits for a person. The rest is the
reference."""

import json
import sys
import uuid

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import NOTHING, PENDING, Worker


class Mine(Worker):
    def end(self, operation, owner, outcome):
        if outcome.what == PENDING:
            outcome = outcome._replace(what=NOTHING)
            key = f"mail-{uuid.uuid4()}"
            with self.store.transaction() as run:
                run(
                    "UPDATE operations SET send_key = :key, body = :body WHERE operation = :operation",
                    key=key,
                    body=json.dumps({**json.loads(operation["body"]), "client_id": key}),
                    operation=operation["operation"],
                )
        super().end(operation, owner, outcome)


Mine().run()
