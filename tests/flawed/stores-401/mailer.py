"""The answer of the guard at the door is stored under the key that it turned away: the right caller is locked out."""

import sys

sys.path.insert(0, "../../targets_common")
from plumbing import Answer
from vendors import Rasket


class Flawed(Rasket):
    stored = {}

    def check_auth(self, call):
        try:
            super().check_auth(call)
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
