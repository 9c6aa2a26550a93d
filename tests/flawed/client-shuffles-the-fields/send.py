"""Writes the fields of each attempt in another order: whether that is the same request, its API does not say."""

import json
import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def ask(self, key, body):
        fields = list(self.fields().items())
        if self.attempt % 2:
            fields.reverse()
        return super().ask(key, json.dumps(dict(fields)).encode())


main(Flawed)
