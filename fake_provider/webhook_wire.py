"""The wire on which events go out: each signed, and one POST on a connection of its own, through what faults lie on it.

``webhook.request`` is the event on its way to the consumer, ``webhook.response`` the consumer's answer (its ack) on
the way back. What is lost on the way out never arrives whole; what is lost on the way back was received, and counts as
failed all the same, because nobody can know.

h11 reads and writes the bytes of the protocol; it does no I/O of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import h11

from sendtwice.fake_provider import webhooks
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.outbox import Answer, OutEvent
from sendtwice.fake_provider.faults import Armed, Crossing, Faults, Place, Verb
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.sockets import abort

#: Standard Webhooks: a consumer has 15 to 30 seconds.
TIMEOUT = 15.0

_AT_ONCE = 16  # connections
_BROKEN = frozenset({Verb.LOSE, Verb.RESET, Verb.CLOSE, Verb.CUT})


class Notifier:
    """Tells a consumer of events: each attempt is signed anew, because an old signature must be rejected."""

    def __init__(
        self,
        wire: WebhookWire,
        secret: str,
        *,
        place: str = "/event_id",
        identify: Callable[[Mail], str | None] | None = None,
    ) -> None:
        """Sign with ``secret``; the id stands at ``place``; ``identify`` says which operation a mail belongs to."""
        webhooks.check_secret(secret)
        self.wire, self.secret = wire, secret
        self._place, self._identify = place, identify or (lambda _: None)

    async def __call__(self, event: OutEvent) -> Answer:
        """Send an event once."""
        body = webhooks.event_body(event, self._place)
        # Of the real time, whatever the clock of the contract says: the consumer has a clock of its own.
        headers = webhooks.sign(self.secret, event.id, time.time(), body)
        mail = _mail_of(event)
        crossing = Crossing(Place.WEBHOOK_REQUEST, None, self._identify(mail), None, event.id, mail.recipients)
        return await self.wire.post(crossing, headers, body)


class WebhookWire:
    """Posts to one address."""

    def __init__(self, url: str, faults: Faults, *, timeout: float = TIMEOUT) -> None:
        """Post to ``url``, and wait ``timeout`` seconds for its answer; :class:`BadFileError` if it is no address."""
        self.url, self.faults, self.timeout = url, faults, timeout
        self._connections = asyncio.Semaphore(_AT_ONCE)
        usable = False
        with contextlib.suppress(ValueError, h11.LocalProtocolError):
            parts = urlsplit(url)
            self._tls = parts.scheme == "https"
            self._host, self._port = parts.hostname, parts.port or (443 if self._tls else 80)
            self._netloc = parts.netloc.rpartition("@")[2]
            self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            self._serialised({}, b"")  # what cannot be written on the wire is told now
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        if not usable:
            raise BadFileError("webhook-url", f"{url!r} is no http address; write http://127.0.0.1:3000/webhooks")

    async def post(self, crossing: Crossing, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one event and return what came back; never raises for what the other side does."""
        data = self._serialised(headers, body)
        armed = self.faults.meet(crossing)
        verb = armed.fault.verb if armed is not None else None
        if armed is not None:
            await _waited(armed)
            if verb in _BROKEN:
                return await self._broken(armed, data)
        if verb is Verb.TWICE:
            answer, _ = await asyncio.gather(self._exchanged(data), self._exchanged(data))
        else:
            answer = await self._exchanged(data)
        if answer.status is None:
            return answer
        crossing.place = Place.WEBHOOK_RESPONSE
        armed = self.faults.meet(crossing)
        if armed is not None:
            await _waited(armed)
            if armed.fault.verb is Verb.LOSE:
                return Answer(problem=f"its answer ({answer.status}) was lost")
            if armed.fault.verb is Verb.ANSWER:
                return Answer(int(armed.fault.argument or 502))
        return answer

    async def _exchanged(self, data: bytes) -> Answer:
        try:
            async with self._connections, asyncio.timeout(self.timeout):
                return await self._exchange(data)
        except TimeoutError:
            return Answer(problem=f"no answer within {self.timeout:g} seconds")
        except (OSError, h11.RemoteProtocolError) as error:
            return Answer(problem=str(error) or type(error).__name__)

    async def _exchange(self, data: bytes) -> Answer:
        reader, writer = await self._connected()
        try:
            writer.write(data)
            parser = h11.Connection(h11.CLIENT)
            # The bytes are on the wire already; the parser has to know what they were to read the answer.
            parser.send(h11.Request(method="POST", target=self._target, headers=[("Host", self._netloc)]))
            parser.send(h11.EndOfMessage())
            answer: Answer | None = None
            while True:
                event = parser.next_event()
                if event is h11.NEED_DATA:
                    parser.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Response):
                    told = {name: value.decode("latin-1") for name, value in event.headers}
                    answer = Answer(event.status_code, retry_after=seconds_of(told.get(b"retry-after")))
                elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return answer or Answer(problem="the connection was closed without an answer")
        finally:
            writer.close()

    async def _broken(self, armed: Armed, data: bytes) -> Answer:
        """Send what a fault lets through, which is never all of it."""
        fault = armed.fault
        through = data[: min(int(fault.argument or 0), len(data) - 1)] if fault.verb is Verb.CUT else data[:-1]
        try:
            async with asyncio.timeout(self.timeout):
                _, writer = await self._connected()
                writer.write(through)
                await writer.drain()
        except (OSError, TimeoutError) as error:
            return Answer(problem=str(error) or "the request was lost")
        if fault.verb is Verb.CLOSE:
            writer.close()
        else:
            abort(writer.transport)
        return Answer(problem="the request was lost on its way")

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port, ssl=True if self._tls else None)

    def _serialised(self, headers: Mapping[str, str], body: bytes) -> bytes:
        parser = h11.Connection(h11.CLIENT)
        sent = {
            "Host": self._netloc,
            "User-Agent": "sendtwice",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **headers,
        }
        request = h11.Request(method="POST", target=self._target, headers=list(sent.items()))
        data = (parser.send(request) or b"") + (parser.send(h11.Data(data=body)) or b"")
        return data + (parser.send(h11.EndOfMessage()) or b"")


def seconds_of(retry_after: str | None) -> float | None:
    """Read a ``Retry-After`` (RFC 9110, 10.2.3): seconds from now, also as a fraction, or a date."""
    if retry_after is None:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(retry_after)) if retry_after.strip()[:1].isdigit() else _from_now(retry_after)
    return None


def _from_now(date: str) -> float:
    when = parsedate_to_datetime(date)
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _mail_of(event: OutEvent) -> Mail:
    """Return the mail that an event tells of, as far as it does, so that faults can be narrowed to it."""
    told = event.data.get("to")
    to = told if isinstance(told, list) else [told]
    sender, subject = (str(event.data.get(name) or "") for name in ("from", "subject"))
    return Mail(sender, tuple(one for one in to if isinstance(one, str)), subject, "")


async def _waited(armed: Armed) -> None:
    """Wait at a gate, or as long as a delay says; a fault that is withdrawn lets go."""
    match armed.fault.verb:
        case Verb.HOLD:
            await armed.gate.wait()
        case Verb.DELAY:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(armed.gate.wait(), float(armed.fault.argument or 0))
