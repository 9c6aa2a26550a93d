"""Keys guard single mails only: a batch that is repeated is sent again."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    def key_of(self, call):
        return None if call.batch else super().key_of(call)


Flawed().serve()
