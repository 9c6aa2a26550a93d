"""The mailbox is no part of the scope: the second mailbox of an account is told of a conflict with a mail that
another one sent."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Pylota


class Flawed(Pylota):
    SCOPE = ("tenant",)


Flawed().serve()
