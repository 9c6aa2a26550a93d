"""Takes every 2xx with a body for a mail that is sent, a draft that waits for a person too."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postfleet, main


class Flawed(Postfleet):
    def read(self, answer):
        return "sent" if answer.status == 202 else super().read(answer)


main(Flawed)
