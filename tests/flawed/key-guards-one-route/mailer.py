"""Only the first path looks at keys; on another one that takes them each retry is a new mail."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def key_of(self, call):
        return None if "conversations" in call.request.path else super().key_of(call)


Flawed().serve()
