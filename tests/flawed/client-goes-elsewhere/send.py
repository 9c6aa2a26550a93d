"""Takes the other address of the API when the first one has not answered."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def target(self):
        found = super().target()
        return found.replace("127.0.0.1", "localhost") if self.attempt % 2 else found


main(Flawed)
