"""The provider's event is acknowledged at once and matched a second later."""

import sys
import threading

sys.path.insert(0, "../../targets_common")
from vendors import Postfleet


class Sound(Postfleet):
    def provider_event(self, call):
        threading.Timer(1.0, super().provider_event, [call]).start()
        return 202, {}


Sound().serve()
