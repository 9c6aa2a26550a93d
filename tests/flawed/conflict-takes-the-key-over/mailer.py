"""Other content that was refused takes the place of the first in the record: its repeat gets the first one's
answer."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def repeat_mismatch(self, call, entry):
        if entry["fingerprint"] != self.fingerprint(call):
            self.store.put("entries", call.place, {**entry, "fingerprint": self.fingerprint(call)})
        super().repeat_mismatch(call, entry)


Flawed().serve()
