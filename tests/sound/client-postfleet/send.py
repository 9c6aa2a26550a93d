"""The key is a field of the body, and a draft that waits for a person is neither sent nor failed."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postfleet, main

main(Postfleet)
