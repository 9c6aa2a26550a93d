"""The mail is handed over first, and then the key is looked at: a bad one is refused when all is done."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    ORDER = ("auth", "rate_limit", "validation", "sent", "key", "record")

    def check_sent(self, call):
        if not self.is_good(self.key_of(call) or "none"):
            self.deliver_all(self.write_down(call))


Flawed().serve()
