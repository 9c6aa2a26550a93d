"""The service behind a proxy's endpoint: it sends every request on to the upstream, once, and returns its answer.

An answer of the proxy's own (the upstream cannot be reached, or says what is no answer) is an exception here: it is no
crossing, and no fault that waits for the upstream's answer must be spent on it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import h11

from sendtwice.fake_provider.connections import Connection
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.faults import Fault
from sendtwice.fake_provider.http_messages import MAX_BODY
from sendtwice.fake_provider.messages import Passed, Request, Response
from sendtwice.harness.edges.proxy_link import CONNECT, Link, UpstreamEndedError
from sendtwice.harness.edges.proxy_log import Crossed, Log, Sending
from sendtwice.harness.edges.proxy_messages import Answer, TooLongError, forwarded


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where requests go. ``prefix`` stands before their path."""

    url: str
    host: str
    port: int
    netloc: str
    prefix: str
    tls: ssl.SSLContext | None

    @classmethod
    def at(cls, url: str, tls: ssl.SSLContext | None = None) -> Upstream:
        """Read an address; ``tls`` is for https. :class:`BadFileError` when it is none."""
        try:
            parts = urlsplit(url)
            port = parts.port if parts.port is not None else 443 if parts.scheme == "https" else 80
        except ValueError:
            raise _no_address(url) from None
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
        if not usable or not (url.isascii() and url.isprintable()) or " " in url:
            raise _no_address(url)
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise BadFileError("--upstream", f"{url!r} says more than where to send; write scheme, host and path only")
        context = tls if parts.scheme == "https" else None
        return cls(url, parts.hostname or "", port, parts.netloc, parts.path.rstrip("/"), context)


def _no_address(url: str) -> BadFileError:
    return BadFileError("--upstream", f"{url!r} is no http address; write https://staging.example.com")


def _reason(error: OSError) -> str:
    """Say why there is no connection; the loop puts a sentence of its own into a system's error."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        return (error.strerror or str(error)).lower()
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


class OwnAnswerError(Exception):
    """A request is answered by the proxy itself."""

    def __init__(self, status: int, why: str) -> None:
        """Answer with a status and one sentence."""
        super().__init__(why)
        self.response = own(status, why)


def own(status: int, why: str) -> Response:
    """Return an answer of the proxy's own."""
    return Response.of(status, {"error": f"sendtwice proxy: {why}"})


@dataclass(slots=True)
class Forwarding:
    """One request on its way."""

    request: Request
    crossed: Crossed
    key: str | None
    forwarder: Forwarder
    operation: str | None = None
    attempt: str | None = None
    faults: tuple[Fault, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)

    _late: bool = False

    async def perform(self) -> Response:
        """Send it on, once, and return the upstream's answer."""
        # A caller that went away while its message was held has sent it all the same: it arrives late, and whole.
        self._late = self.forwarder.is_gone(self.request.connection)
        return await self.forwarder.send(self.request, self.crossed)

    def answer(self, what: str | float) -> Response:
        """Return another answer than the upstream's; no class of answers is known here, but that one is a success."""
        status = int(what) if isinstance(what, int | float) else 200
        return own(status, "a fault asked for this answer")

    def hung_up(self) -> None:
        """Pass on that its caller hung up while it was out."""
        if not self._late:
            self.forwarder.hang_up(self.request.connection)


class Forwarder:
    """Sends requests to one upstream, each caller's on connections of their own."""

    def __init__(self, upstream: Upstream, log: Log, *, key_header: str, keep_host: bool) -> None:
        """Note in ``log`` what crosses; ``key_header`` has a request's key."""
        self.upstream, self.log = upstream, log
        self._key_header, self._host = key_header, None if keep_host else upstream.netloc
        self._callers: dict[int, Connection] = {}
        self._links: dict[int, Link] = {}
        self._hung_up: set[int] = set()  # while the upstream was not yet reached
        #: Tells whether an address is the proxy's own.
        self.is_own: Callable[[str], bool] = lambda _: False

    # --- Connections ---------------------------------------------------------------------------------------

    def join(self, caller: Connection) -> None:
        """A caller has connected."""
        self._callers[caller.number] = caller

    def leave(self, number: int) -> None:
        """A caller's connection has ended, and so does the one that is its own."""
        del self._callers[number]
        self._hung_up.discard(number)
        link = self._links.pop(number, None)
        if link is not None:
            link.close()

    def is_gone(self, number: int) -> bool:
        """Whether a caller has closed or reset its side."""
        return self._callers[number].gone

    def hang_up(self, number: int) -> None:
        """A caller has hung up while its request is out, or about to be."""
        link = self._links.get(number)
        if link is not None and link.usable:
            link.hang_up(by_reset=self._callers[number].was_reset)
        else:
            self._hung_up.add(number)

    async def _link(self, number: int) -> Link:
        """Return the connection for a caller's next request; a new one where there is none, or none that lives."""
        link = self._links.get(number)
        if link is not None and link.usable:
            return link
        to = self.upstream
        try:
            link = await Link.to(to.host, to.port, to.tls, lambda: self._idle_end(number))
        except TimeoutError:
            raise OwnAnswerError(
                502, f"there was no connection with {to.url} within {CONNECT:g} s; nothing was sent"
            ) from None
        except ssl.SSLCertVerificationError as error:
            why = f"the certificate of {to.url} is not trusted ({error.verify_message}); give --ca FILE, or --insecure"
            raise OwnAnswerError(502, why) from None
        except OSError as error:
            raise OwnAnswerError(502, f"{to.url} cannot be reached ({_reason(error)}); nothing was sent") from None
        self._links[number] = link
        return link

    def _idle_end(self, number: int) -> None:
        """The upstream has ended a connection on which nothing is asked: so does the caller's, unless it is told."""
        caller = self._callers.get(number)
        if caller is not None and self.log.open(number) is None:
            caller.close()

    # --- Messages ------------------------------------------------------------------------------------------

    def begin(self, request: Request) -> Forwarding:
        """Understand a request, sending nothing."""
        key = request.header(self._key_header)
        notes = {"message": f"{request.method} {request.target}"}
        return Forwarding(request, self.log.begin(request, key), key, self, notes=notes)

    async def send(self, request: Request, crossed: Crossed) -> Passed:
        """Send a request on and return its answer."""
        answer = Answer(request.method, chunks=request.version >= "1.1")
        data = forwarded(request, self._target(request), self._host)
        link = await self._link(request.connection)
        sending = Sending()
        crossed.forwarded.append(sending)
        if request.connection in self._hung_up:
            asyncio.get_running_loop().call_soon(self.hang_up, request.connection)  # right behind the request
        try:
            await link.ask(data, answer)
        except UpstreamEndedError as error:
            sending.problem = str(error)
            raise
        except TooLongError:
            sending.problem = f"its answer is longer than {MAX_BODY >> 20} MiB, which is all that is kept of one"
        except h11.RemoteProtocolError as error:
            sending.problem = f"what it answered is no HTTP/1.1 ({error})"
        else:
            sending.status = answer.status
            return answer.passed()
        link.close()
        raise OwnAnswerError(502, f"{self.upstream.url} was asked, and {sending.problem}")

    async def cut(self, request: Request, count: int) -> None:
        """Let so many bytes of a request through, never all of them."""
        data = forwarded(request, self._target(request), self._host)
        link = await self._link(request.connection)
        await link.cut(data[: min(count, len(data) - 1)])

    def _target(self, request: Request) -> str:
        """Return the target that the upstream gets; :class:`OwnAnswerError` for what is not for it."""
        target, to = request.target, self.upstream
        if request.method == "CONNECT":
            raise OwnAnswerError(501, "there are no tunnels here; send requests, they go to " + to.url)
        if target.startswith("/"):
            return to.prefix + target
        if target == "*":
            return target
        authority, slash, path = target.partition("://")[2].partition("/")
        if authority == to.netloc:
            return slash + path or "/"
        if self.is_own(authority):
            return f"{to.prefix}/{path}"
        raise OwnAnswerError(421, f"requests go to {to.url} only, and this one is for {authority or target}")
