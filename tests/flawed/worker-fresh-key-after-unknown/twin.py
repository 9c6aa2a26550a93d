"""Takes an outcome that nobody knows for a failure of the key, and tries again under a fresh one. The rest is the
reference."""

import sys
import uuid

sys.path.insert(0, "../../implementations/mail-worker-python")
from worker import UNKNOWN, Worker


class Mine(Worker):
    def end(self, operation, owner, outcome):
        if outcome.what == UNKNOWN:
            with self.store.transaction() as run:
                run(
                    "UPDATE operations SET send_key = :key WHERE operation = :operation",
                    key=f"mail-{uuid.uuid4()}",
                    operation=operation["operation"],
                )
        super().end(operation, owner, outcome)


Mine().run()
