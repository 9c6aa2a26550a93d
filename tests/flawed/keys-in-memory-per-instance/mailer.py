"""Each instance keeps the keys in its own memory: a retry that meets the other one is a new send. With one instance
this is sound (tests/sound/one-instance-in-memory)."""

import os
import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket

os.environ["STATE"] = ":memory:"
Rasket().serve()
