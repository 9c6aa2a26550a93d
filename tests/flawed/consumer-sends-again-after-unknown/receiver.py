"""Takes an unknown outcome for a failure: the event is refused, comes again, and is answered again, without a key that
the send API would know."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox
from plumbing import error


class Optimist(Inbox):
    def unknown(self, name):
        self.release(name)
        return error(503, "try_again", "The reply was not sent.")


Optimist().serve()
