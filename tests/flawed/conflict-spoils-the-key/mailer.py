"""A conflict is written into the record of the key: from then on the right repeat is told of a conflict as well."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def repeat_mismatch(self, call, entry):
        if entry["fingerprint"] != self.fingerprint(call):
            self.store.put("entries", call.place, {**entry, "fingerprint": "spoiled"})
        super().repeat_mismatch(call, entry)


Flawed().serve()
