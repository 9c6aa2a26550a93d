"""A conflict is answered with the body of the first answer: nothing says that it is one."""

import sys

sys.path.insert(0, "../../targets_common")
from plumbing import Answer
from vendors import Rasket


class Flawed(Rasket):
    def repeat_mismatch(self, call, entry):
        if entry["fingerprint"] != self.fingerprint(call):
            raise Answer(409, (entry.get("answer") or [0, {}])[1])


Flawed().serve()
