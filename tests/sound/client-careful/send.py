"""Stores key, body and time before the first attempt, and the outcome after the last: a restart takes the old key, and
what is too old for the API to remember is not sent again."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main

main(Caller)
