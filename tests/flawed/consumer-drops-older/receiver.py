"""Goes by the newest time that it has seen: an event that comes late is taken for an old one, and dropped."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import OK, Inbox


class Newest(Inbox):
    newest = ""

    def post(self, request):
        if not self.believes(request):
            return super().post(request)
        event = request.body
        with self.lock:
            late = event["timestamp"] < self.newest
            self.newest = max(self.newest, event["timestamp"])
        return OK if late else super().post(request)


Newest().serve()
