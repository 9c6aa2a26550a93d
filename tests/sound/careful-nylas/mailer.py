"""Keeps all that contract nylas says, with a clock that can be moved; see tests/targets_common/careful.py."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Nylas

Nylas().serve()
