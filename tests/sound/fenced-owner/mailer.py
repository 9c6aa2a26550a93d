"""A claim lapses after five minutes, and another instance takes it over. A mail goes from "queued" to "handing over" in
one write, which is the fence: an owner that comes too late finds it taken. What its owner was handing over already is
not sent again, because nobody knows what came of it until that owner notes it."""

import sys

sys.path.insert(0, "../../targets_common")
from instances import Leased
from vendors import Rasket


class Sound(Leased, Rasket):
    taken_over = "unknown"

    def look_up(self, call):
        entry = super().look_up(call)
        if entry is not None and entry["state"] == "kept" and self.outcome(entry["ids"]) == "sent":
            answer = self.answer("accepted", entry["ids"], entry["batch"])
            self.conclude(call.place, entry, "sent", answer)
            entry = self.store.get("entries", call.place)
        return entry


Sound().serve()
