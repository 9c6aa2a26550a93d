"""Every answer has the marker of a replay, the first one too: a caller cannot tell whether it sent anything."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Nylas


class Flawed(Nylas):
    def finished(self, call, answer):
        status, body, headers = (*super().finished(call, answer), {})[:3]
        return status, body, {**headers, **self.MARKER_HEADERS}


Flawed().serve()
