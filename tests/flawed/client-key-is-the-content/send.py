"""Makes the key of the mail's words: two orders with equal words are one, and one order in other words is two."""

import hashlib
import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def key(self):
        return hashlib.sha256(self.body(None)).hexdigest()


main(Flawed)
