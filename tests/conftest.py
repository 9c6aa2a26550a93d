"""The ground that every test stands on."""

import os
import sys
from pathlib import Path

# Child processes find `sendtwice`, `python` and the rest where the tests run from, activated or not.
_BIN = str(Path(sys.executable).parent)
os.environ["PATH"] = os.pathsep.join([_BIN, *(p for p in os.environ["PATH"].split(os.pathsep) if p != _BIN)])

# Every flag of the command line is also an environment variable: a developer's own must not change what a
# test sees.
for _name in [name for name in os.environ if name.startswith("SENDTWICE_") and name != "SENDTWICE_REQUIRE"]:
    del os.environ[_name]
