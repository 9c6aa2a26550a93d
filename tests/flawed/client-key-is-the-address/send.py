"""Makes the key of the recipient's address and the order: what identifies a person ends up in every log of keys."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def key(self):
        return f"{self.to}:{self.operation}"


main(Flawed)
