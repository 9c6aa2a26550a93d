"""Answers the message before it acknowledges the event, with a send API that has no keys: an outcome that is not known
stays unknown, and is acknowledged."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox, standard


class Careful(Inbox):
    def believes(self, request):
        return standard(request.headers, request.raw, start="svix")


Careful().serve()
