"""The limiter's answer is stored under the key that it turned away: the send is limited for ever."""

import sys

sys.path.insert(0, "../../targets_common")
from plumbing import Answer
from vendors import Rasket


class Flawed(Rasket):
    stored = {}

    def check_rate_limit(self, call):
        try:
            super().check_rate_limit(call)
        except Answer as refusal:
            call.key = self.key_of(call)
            if not self.store.get("entries", self.place(call)):
                self.stored[self.place(call)] = refusal
            raise

    def check_record(self, call):
        if call.key and self.place(call) in self.stored:
            raise self.stored[self.place(call)]
        super().check_record(call)


Flawed().serve()
