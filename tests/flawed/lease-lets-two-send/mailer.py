"""A claim lapses after five minutes while its owner still works: another one takes it over, and both send."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def has_lapsed(self, entry):
        return entry["state"] == "running" and self.now() - entry["received"] > 300

    def look_up(self, call):
        entry = super().look_up(call)
        lapsed = entry is not None and self.has_lapsed(self.store.get("entries", call.place))
        return {**entry, "ids": []} if lapsed else entry


Flawed().serve()
