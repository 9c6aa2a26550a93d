"""What several tests share: asking for tools that a machine may not have."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Debian keeps a database's server programs out of PATH.
_ELSEWHERE = {
    "postgres": "/usr/lib/postgresql/*/bin/postgres",
    "initdb": "/usr/lib/postgresql/*/bin/initdb",
    "pg_ctl": "/usr/lib/postgresql/*/bin/pg_ctl",
}


def required(tool: str) -> bool:
    """Whether SENDTWICE_REQUIRE asks for a tool: `all`, `all,-docker`, or names: `node,postgres`."""
    wanted = {name.strip() for name in os.environ.get("SENDTWICE_REQUIRE", "").split(",")}
    return f"-{tool}" not in wanted and ("all" in wanted or tool in wanted)


def missing(tool: str, reason: str) -> NoReturn:
    """Skip the test, naming what is missing; where SENDTWICE_REQUIRE asks for it, fail instead."""
    message = f"{tool} is missing: {reason}"
    if required(tool):
        pytest.fail(f"{message} (SENDTWICE_REQUIRE asks for it)", pytrace=False)
    pytest.skip(message)


def require(tool: str, reason: str) -> str:
    """The path of a program that the test cannot do without, or else as `missing` says."""
    found = shutil.which(tool)
    if found is None and tool in _ELSEWHERE:
        pattern = Path(_ELSEWHERE[tool])
        found = max((str(path) for path in Path("/").glob(str(pattern.relative_to("/")))), default=None)
    if found is None:
        missing(tool, reason)
    return found
