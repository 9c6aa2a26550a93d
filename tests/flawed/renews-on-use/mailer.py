"""Each repeat lengthens the life of the key, which is to be counted from the first request."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Nylas


class Flawed(Nylas):
    def repeat_replay(self, call, entry):
        self.store.put("entries", call.place, {**entry, "received": self.now()})
        super().repeat_replay(call, entry)


Flawed().serve()
