"""Retries every 409, those too that will be the same for ever."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def again(self, kind, answer):
        return kind == "conflict" or super().again(kind, answer)


main(Flawed)
