"""A repeat of a draft that still waits is answered 200, as every repeat is: it names the draft and its state."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Sound(Postfleet):
    def replayed(self, entry):
        status, body, headers = super().replayed(entry)
        return (200, {**body, "id": body["draft_id"]}, headers) if status == 202 else (status, body, headers)


Sound().serve()
