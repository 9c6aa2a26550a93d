"""The fingerprint is made of the body as it is written, field by field: another order of the same fields is a
conflict."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket


class Flawed(Rasket):
    KEEPS_FIELD_ORDER = True


Flawed().serve()
