"""After a server error it tries again without the key, which it takes for the reason."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postfleet, main


class Flawed(Postfleet):
    suspects = False

    def ask(self, key, body):
        kind, answer = super().ask(key, self.body(None) if self.suspects else body)
        self.suspects = self.suspects or (answer is not None and answer.status == 500)
        return kind, answer


main(Flawed)
