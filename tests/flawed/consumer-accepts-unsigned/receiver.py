"""Verifies a signature where there is one: an event without any is believed."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class Lenient(Inbox):
    def believes(self, request):
        return "webhook-signature" not in request.headers or super().believes(request)


Lenient().serve()
