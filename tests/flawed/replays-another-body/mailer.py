"""A repeat shows the message as it is now, where the contract promises the original response."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def replayed(self, entry):
        status, body, headers = super().replayed(entry)
        return status, {**body, "status": "delivered"} if body.get("status") == "queued" else body, headers


Flawed().serve()
