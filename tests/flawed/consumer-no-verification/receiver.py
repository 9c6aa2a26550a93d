"""Takes every event for the provider's own: whoever knows the address can have a mail sent."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class Credulous(Inbox):
    def believes(self, request):
        return True


Credulous().serve()
