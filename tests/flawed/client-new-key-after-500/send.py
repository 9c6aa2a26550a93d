"""Takes a 500 for a proof that nothing was done, and tries again under a new key."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postfleet, main


class Flawed(Postfleet):
    renewed = ""

    def key(self):
        return super().key() + self.renewed

    def ask(self, key, body):
        if self.renewed:
            key = self.key()
            body = self.body(key)
        kind, answer = super().ask(key, body)
        if answer is not None and answer.status == 500:
            self.renewed += "-again"
        return kind, answer


main(Flawed)
