"""Keys in memory are sound for as long as there is one instance and it is not started again."""

import os
import sys

sys.path.insert(0, "../../targets_common")
from vendors import Rasket

os.environ["STATE"] = ":memory:"
Rasket().serve()
