"""No mail leaves this machine: while a test has a send API, a connection elsewhere is an error.

The interpreter announces every connection and every look-up of a name to audit hooks (PEP 578), in whatever thread and
by whatever library; an error raised there is what the caller gets. A hook cannot be taken away again, so there is one,
added when it is first needed, that does nothing while no test asks for it. What a library of C does by itself is not
announced: a database driver's own connections go through.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
import sys
import threading
from collections.abc import Sequence

from sendtwice.harness.testing.errors import SendtwiceError

_TO_AN_ADDRESS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_EVENTS = _TO_AN_ADDRESS | {"socket.getaddrinfo", "socket.gethostbyname"}
_NO_ADDRESS = frozenset({"", "localhost", "ip6-localhost", "broadcasthost"})

_active: list[Guard] = []
_looking_up = threading.local()


class UnexpectedHostError(SendtwiceError):
    """A connection to another machine was asked for during a test."""


class Guard:
    """Refuses connections to hosts that are neither this machine nor allowed, from :meth:`begin` to :meth:`end`."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        """``allowed``: names and addresses of hosts, with ``*``."""
        self._allowed = tuple(host.casefold() for host in allowed)
        self._addresses: set[str] = set()  # of names that are allowed
        self.refused: list[UnexpectedHostError] = []

    def begin(self) -> None:
        """Refuse from here on."""
        _install()
        _active.append(self)

    def end(self) -> None:
        """Let everything through again."""
        if self in _active:
            _active.remove(self)

    def check(self, host: str, port: object) -> None:
        """Raise when a host is refused."""
        if _is_here(host):
            return
        if host in self._addresses or any(fnmatch.fnmatchcase(host.casefold(), one) for one in self._allowed):
            self._addresses |= _addresses(host)
            return
        where = f"{host}:{port}" if isinstance(port, int) and port else host
        error = UnexpectedHostError(
            f"a connection to {where} was refused: a test with a send API stays on this machine. Point the client at "
            f"send_api.url, or allow the host in pytest's settings: sendtwice_allow = {host}"
        )
        self.refused.append(error)
        raise error


def _is_here(host: str) -> bool:
    name = host.casefold().rstrip(".")
    if name in _NO_ADDRESS or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


def _addresses(host: str) -> set[str]:
    """Return the addresses of a name that is allowed: the connection itself is to one of them."""
    _looking_up.now = True
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()
    finally:
        _looking_up.now = False


def _install() -> None:
    if not getattr(_install, "done", False):
        sys.addaudithook(_hook)
        _install.done = True  # type: ignore[attr-defined]


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _active or event not in _EVENTS or getattr(_looking_up, "now", False):
        return
    host, port = _asked(event, arguments)
    if host is not None and not (event.startswith("socket.get") and host == socket.gethostname()):
        for guard in tuple(_active):
            guard.check(host, port)


def _asked(event: str, arguments: tuple[object, ...]) -> tuple[str | None, object]:
    """Return which host is asked for, and at which port; None for what is no host, such as a Unix socket."""
    port: object = None
    host: object = arguments[0]
    if event in _TO_AN_ADDRESS:
        address = arguments[1]
        host, port = (address[0], address[1]) if isinstance(address, tuple) and len(address) > 1 else (None, None)
        if not isinstance(host, str | bytes):
            return None, None
    elif event == "socket.getaddrinfo":
        port = arguments[1]
    if isinstance(host, bytes | bytearray):
        return bytes(host).decode("ascii", "replace"), port
    return (host, port) if isinstance(host, str) else (None, port)
