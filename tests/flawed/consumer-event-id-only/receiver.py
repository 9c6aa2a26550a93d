"""One id for all layers: a message is known by the id of its event, so another event of the same message is a second
reply."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class OneId(Inbox):
    def known_as(self, event):
        return event["event_id"]


OneId().serve()
