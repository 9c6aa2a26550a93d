"""Writing what a run leaves behind: whole files or none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a half; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A device (/dev/stdout) or a pipe cannot be replaced; it is written to.
    if path.exists() and not path.is_file():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            error.filename = str(path)  # a full device says this only of a file without a name
            raise
        return
    place = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{place.name[:40]}.", dir=place.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp makes files that only their owner reads; a report is like any other file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
