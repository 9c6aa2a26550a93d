"""The lease is shorter than the work can be: an instance that finds the claim lapsed sends the mail, and so does the
slow owner when it wakes up."""

import sys

sys.path.insert(0, "../../targets_common")
from instances import Leased
from vendors import Rasket


class Flawed(Leased, Rasket):
    taken_over = "queued"


Flawed().serve()
