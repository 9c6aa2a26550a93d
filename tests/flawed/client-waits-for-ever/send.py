"""Has no time limit for an answer."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    TIMEOUT = None


main(Flawed)
