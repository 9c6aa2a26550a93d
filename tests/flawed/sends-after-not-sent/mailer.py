"""What a person settled as not sent is sent by the next retry under the old key, which is to be done with."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    def resolve(self, call):
        answer = super().resolve(call)
        message = self.store.get("messages", call.name)
        if message["state"] == "refused":
            self.store.drop("entries", message["place"])
        return answer


Flawed().serve()
