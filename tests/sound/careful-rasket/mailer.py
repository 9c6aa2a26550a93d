"""Keeps all that contract rasket says, with a clock that can be moved; see tests/targets_common/careful.py."""

import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket

Rasket().serve()
