"""Which addresses are this machine's own: sendtwice sends to no others unless it is told to."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from sendtwice.fake_provider.documents import BadFileError


def is_loopback(url: str) -> bool:
    """Whether a URL stays on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def not_allowed(url: str, file: str, *, where: str = "", also: str = "") -> BadFileError:
    """Return the error for a URL that is another machine's; ``also`` is a further remedy."""
    remedy = f"sendtwice sends there only with --allow-remote{also}"
    return BadFileError(file, f"{url} is not on this machine; {remedy}", where=where)
