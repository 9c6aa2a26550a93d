"""A replay is written anew, with its fields in another order and with what is known by now, where no body is
promised."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Sound(Postfleet):
    def replayed(self, entry):
        status, body, headers = super().replayed(entry)
        return status, {"deliveries": len(entry["ids"]), **dict(reversed(body.items()))}, headers


Sound().serve()
