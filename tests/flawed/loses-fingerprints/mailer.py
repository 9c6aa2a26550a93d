"""Fingerprints are kept in memory: after a restart any content under a used key is taken for the repeat."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def wake_up(self):
        super().wake_up()
        for place, entry in self.store.all("entries"):
            self.store.put("entries", place, {**entry, "fingerprint": None})

    def repeat_mismatch(self, call, entry):
        if entry["fingerprint"] is not None:
            super().repeat_mismatch(call, entry)


Flawed().serve()
