"""Takes every 200 for a mail that is sent, a proxy's page and an empty body too."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def read(self, answer):
        return "sent" if answer.status == 200 else super().read(answer)


main(Flawed)
