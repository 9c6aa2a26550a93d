"""Takes a draft that waits for a person for a failure, and makes another one under a new key."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postfleet, main


class Flawed(Postfleet):
    drafts = 0

    def key(self):
        return f"{super().key()}-{self.drafts}"

    def ask(self, key, body):
        key = self.key()
        kind, answer = super().ask(key, self.body(key))
        self.drafts += kind == "pending"
        return kind, answer

    def again(self, kind, answer):
        return kind == "pending" or super().again(kind, answer)


main(Flawed)
