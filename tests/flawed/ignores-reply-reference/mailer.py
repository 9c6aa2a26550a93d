"""The message that is replied to is not part of the fingerprint: the same words in another thread are taken for
the repeat."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def canonical(self, call):
        return {name: value for name, value in super().canonical(call).items() if name != "in_reply_to"}


Flawed().serve()
