"""A proxy with faults, between any two real systems that speak HTTP: ``sendtwice proxy``.

::

    caller ──client.request──▶ proxy ──▶ upstream
           ◀─client.response──       ◀──

``client.request`` is: the message is complete, and nothing of it has gone on. ``client.response`` is: the upstream has
answered as a whole, and nothing of it has been given. So a lost answer is one of a request that the upstream has
surely done, and the same faults are here as on every other wire, put there by the control API.

The proxy is a wire and no party: it changes nothing but what belongs to one connection, adds no field, and never sends
a request a second time unless ``twice`` asks for it. What breaks off behind it breaks off before it in the same way.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sendtwice.fake_provider.connections import Connection
from sendtwice.fake_provider.contracts.model import HEADER_NAME
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.faults import Armed, Fault, Faults, Place, Verb
from sendtwice.fake_provider.http import Endpoint
from sendtwice.fake_provider.messages import Exchange, Request
from sendtwice.fake_provider.serve import announce, stand
from sendtwice.harness.edges import proxy_tls
from sendtwice.harness.edges.proxy_control import ProxyControl
from sendtwice.harness.edges.proxy_forward import Forwarder, Forwarding, OwnAnswerError, Upstream
from sendtwice.harness.edges.proxy_link import UpstreamEndedError
from sendtwice.harness.edges.proxy_log import Log
from sendtwice.harness.remote import is_loopback, not_allowed


class ProxyEndpoint(Endpoint):
    """The listening side: what an endpoint does, and a caller's connection has one to the upstream behind it."""

    def __init__(self, forwarder: Forwarder, faults: Faults, control: ProxyControl) -> None:
        """Stand in front of ``forwarder``."""
        super().__init__(forwarder, edge="client", faults=faults, observe=forwarder.log.observe, control=control)
        self._forwarder, self._log = forwarder, forwarder.log

    def _for_control(self, path: str) -> bool:
        return path.startswith("/_sendtwice/")  # /healthz is the upstream's own here

    def _accept(self, connection: Connection) -> None:
        super()._accept(connection)
        self._forwarder.join(connection)

    async def _see_through(self, connection: Connection) -> None:
        try:
            await super()._see_through(connection)
        finally:
            self._forwarder.leave(connection.number)

    async def _exchange(self, connection: Connection, request: Request, exchange: Exchange) -> bool:
        crossed = self._log.open(connection.number)
        assert crossed is not None
        try:
            return await super()._exchange(connection, request, exchange)
        except OwnAnswerError as own:
            crossed.problem = str(own)
            return await self._write(connection, own.response, {"connection": connection.number}, None)
        except UpstreamEndedError as ended:
            crossed.problem = str(ended)
            if ended.answer.begun:
                connection.write(connection.messages.answer(ended.answer.passed()))
                await connection.flushed()  # an RST must not overtake it
            connection.reset() if ended.by_reset else connection.close()
            return False
        finally:
            self._log.end(connection.number)

    def _meet(self, place: Place, exchange: Exchange, asked: dict[Place, Fault]) -> Armed | None:
        armed = super()._meet(place, exchange, asked)
        if armed is not None and isinstance(exchange, Forwarding):
            exchange.crossed.faults.append(armed)
        return armed

    async def _stopped(self, connection: Connection, armed: Armed) -> bool:
        crossed = self._log.open(connection.number)
        if armed.fault.verb is Verb.CUT and crossed is not None and crossed.request is not None:
            await self._forwarder.cut(crossed.request, int(armed.fault.argument or 0))
        return await super()._stopped(connection, armed)


class Proxy:
    """A proxy in front of one upstream, its faults, and what crossed it."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        tls: ssl.SSLContext | None = None,
        key_header: str = "Idempotency-Key",
        keep_host: bool = False,
    ) -> None:
        """Nothing listens before :meth:`start`; with ``tls`` it is https."""
        self.log = Log()
        self.faults = Faults(lambda _, __: self.log.wake())
        self.upstream, self._tls = upstream, tls
        self._forwarder = Forwarder(upstream, self.log, key_header=key_header, keep_host=keep_host)
        self._forwarder.is_own = self._is_own
        self.control = ProxyControl(self.faults, self.log, upstream=upstream.url)
        self.endpoint = ProxyEndpoint(self._forwarder, self.faults, self.control)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.endpoint.url

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and return the port."""
        listening = await self.endpoint.start(host, port, self._tls)
        if self._is_own(self.upstream.netloc):
            await self.stop()
            raise BadFileError("--upstream", f"{self.upstream.url} is this proxy itself; name the API behind it")
        return listening

    async def stop(self) -> None:
        """Close the listener and every connection."""
        await self.endpoint.stop()

    def _is_own(self, authority: str) -> bool:
        try:
            parts = urlsplit(f"//{authority}")
            port = parts.port or (443 if self._tls else 80)
        except ValueError:
            return False
        return port == self.endpoint.port and is_loopback(f"//{authority}")


async def serve(
    upstream: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8026,
    tls: bool = False,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    ca: Path | None = None,
    insecure: bool = False,
    allow_remote: bool = False,
    key_header: str = "Idempotency-Key",
    keep_host: bool = False,
    ready: Callable[[dict[str, Any]], None] = announce,
) -> None:
    """Stand between callers and ``upstream`` until cancelled, SIGTERM or SIGINT."""
    if tls and tls_cert is not None:
        raise BadFileError("--tls", "makes a certificate, and --tls-cert gives one; keep one of them")
    if tls_key is not None and tls_cert is None:
        raise BadFileError("--tls-key", f"{tls_key} is the key of no certificate; give --tls-cert too")
    if ca is not None and insecure:
        raise BadFileError("--insecure", "trusts anybody, and --ca says whom; keep one of them")
    if (ca is not None or insecure) and not upstream.startswith("https:"):
        raise BadFileError("--ca" if ca else "--insecure", f"is for an https upstream, and {upstream} is none")
    if not HEADER_NAME.fullmatch(key_header):
        raise BadFileError("--key-header", f"{key_header!r} is no header name; write Idempotency-Key")
    where = Upstream.at(upstream)
    if not (allow_remote or is_loopback(upstream)):
        raise not_allowed(upstream, "--upstream")
    if upstream.startswith("https:"):
        where = Upstream.at(upstream, proxy_tls.trusted(ca, insecure=insecure))
    own = proxy_tls.SelfSigned(host) if tls else None
    told: dict[str, Any] = {"upstream": upstream}
    try:
        context: ssl.SSLContext | None = None
        if own is not None:
            told["ca"] = str(own.certificate)
            context = proxy_tls.served(own.certificate, own.key)
        elif tls_cert is not None:
            context = proxy_tls.served(tls_cert, tls_key)
        proxy = Proxy(where, tls=context, key_header=key_header, keep_host=keep_host)
        await stand(proxy, host, port, told, ready=ready)
    finally:
        if own is not None:
            own.remove()
