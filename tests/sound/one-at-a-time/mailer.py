"""One lock is held from the first byte of a request to the last of its answer: nothing ever meets."""

import sys
import threading

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Sound(Rasket):
    lock = threading.Lock()

    def respond(self, request):
        if request.path == "/clock":
            return super().respond(request)
        with self.lock:
            return super().respond(request)


Sound().serve()
