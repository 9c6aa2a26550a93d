"""At an API without keys it tries again only what was certainly not sent."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Postmark, main

main(Postmark)
