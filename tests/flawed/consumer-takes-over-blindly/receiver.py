"""Takes the claim of a process that died for work that was not done: between the send and its record that is a second
mail."""

import sys

sys.path.insert(0, "../../targets_common")
from inbox import Inbox


class Heir(Inbox):
    def left_behind(self, name):
        self.note(name, "sending")
        return "mine"


Heir().serve()
