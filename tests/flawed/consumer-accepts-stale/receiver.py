"""Verifies Stripe's signature and forgets the time in it: a recorded event is good for ever."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox, stripe


class Timeless(Inbox):
    def believes(self, request):
        return stripe(request.headers, request.raw, tolerance=10**9)


Timeless().serve()
