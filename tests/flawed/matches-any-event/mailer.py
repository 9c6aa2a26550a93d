"""The provider's event settles the oldest open mail, whatever mail it tells of."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Flawed(Postfleet):
    def provider_event(self, call):
        for name, message in self.store.all("messages")[::-1]:
            if self.may_mean(message):
                self.store.put("messages", name, {**message, "state": "sent"})
                self.decided(name, {**message, "state": "sent"})
                break
        return 200, {}


Flawed().serve()
