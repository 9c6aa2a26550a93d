"""Where the emulator's mail goes: its own ledger, or another provider over HTTP.

Whoever hands a mail over learns one of four things, and must not mix them up: it was taken (``sent``); it
will never be taken (``refused``); it was certainly not taken and may be later (``busy``); or nobody knows
(``unknown``).  Only a connection that was never made, and a status that a provider gives before it does
anything, are certain.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate, parseaddr
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.dialects import bodies, shapes
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.ledger import Ledger, Mail

if TYPE_CHECKING:
    import httpx


class Kind(StrEnum):
    """What is known after a hand-over."""

    SENT = "sent"
    REFUSED = "refused"
    BUSY = "busy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one hand-over, and the provider's id of the mail."""

    kind: Kind
    id: str | None = None


class Upstream(Protocol):
    """Takes mail.

    ``deduplicates``: the same key again is no second mail; then an unknown outcome may be repeated, for
    ``remembers`` seconds after the first time.  ``immediate``: a hand-over takes no time and cannot fail.
    """

    deduplicates: bool
    remembers: float
    immediate: bool

    async def send(self, mail: Mail, key: str) -> Outcome:
        """Hand one mail over; never raises for what a provider does."""

    async def start(self) -> None:
        """Make ready."""

    async def stop(self) -> None:
        """Let go of everything."""


class LedgerUpstream:
    """Delivers into a ledger of this process: one synchronous call, so the outcome is always known."""

    deduplicates = False
    remembers = 0.0
    immediate = True

    def __init__(self, ledger: Ledger, identify: Callable[[Mail], str | None] | None = None) -> None:
        """Commit to ``ledger``; ``identify`` says which operation a mail belongs to."""
        self.ledger = ledger
        self._identify = identify or (lambda _: None)

    async def send(self, mail: Mail, key: str) -> Outcome:  # noqa: ARG002  # keys mean nothing to a ledger
        """Commit the mail, under the key that its caller gave it."""
        return Outcome(Kind.SENT, str(self.deliver(mail)))

    def deliver(self, mail: Mail) -> int:
        """Commit the mail at once, and return the number of the commit."""
        return self.ledger.commit(mail, operation=self._identify(mail))

    async def start(self) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""


class HttpUpstream:
    """Posts to a provider as a dialect says, on a new connection each time.

    Connections are not kept: one that the other side closes while a request is being written would make an
    unknown outcome out of nothing, and hide attempts from whoever watches the wire.
    """

    immediate = False

    def __init__(self, url: str, dialect: Contract, *, timeout: float = 5.0) -> None:
        """Post to ``url``; wait ``timeout`` seconds for an answer."""
        self.url, self.dialect, self.timeout = url.rstrip("/"), dialect, timeout
        self.deduplicates = dialect.key.presence.played("none") != "none" and dialect.duplicates.played("execute") in {
            "replay",
            "replay_current",
            "resume",
            "accept",
        }
        # What the vendor promises at least; a key that may be forgotten guards nothing.
        retention = dialect.retention
        self.remembers = retention.at_least.played(math.inf) if self.deduplicates else 0.0
        self._client: httpx.AsyncClient | None = None

    async def start(self) -> None:
        """Load the HTTP client, which takes longer than all the rest of a start."""
        self._connect()

    def _connect(self) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        # No proxy of the environment stands between a target and the provider that watches it.
        # To load certificates takes longer than a whole start, so it is done for https only.
        secure = self.url.startswith("https:")
        self._client = httpx.AsyncClient(timeout=self.timeout, limits=limits, trust_env=False, verify=secure)
        return self._client

    async def stop(self) -> None:
        """Close every connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(self, mail: Mail, key: str) -> Outcome:
        """Post the mail, under our own key for it if the provider takes keys."""
        import httpx  # noqa: PLC0415

        client = self._client or self._connect()
        route = self.dialect.request
        headers = {name: render(value, mail) or "" for name, value in route.headers.items()}
        query = {name: render(value, mail) or "" for name, value in route.query.items()}
        body = render(route.body, mail)
        if isinstance(body, dict) and mail.html:
            pointers.put(body, self.dialect.mail.html, mail.html)
        for place, value in self._about_key(key):
            carrier, _, name = place.partition(":")
            if carrier == "header":
                headers[name] = value
            elif carrier == "query":
                query[name] = value
            elif isinstance(body, dict):
                pointers.put(body, name, value)
        kind = headers.setdefault("Content-Type", "application/json")
        url = self.url + _path(route.path, mail)
        try:
            response = await client.request(
                route.method,
                url,
                content=_encoded(kind, body),
                # As bytes, because a caller's key may be any text.
                headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                params=query,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            return Outcome(Kind.BUSY)
        except (httpx.HTTPError, httpx.StreamError):
            return Outcome(Kind.UNKNOWN)
        try:
            data = response.json()
        except ValueError:
            data = None
        return read(self.dialect, response.status_code, data, dict(response.headers))

    def _about_key(self, key: str) -> list[tuple[str, str]]:
        """Return what stands where when a key is sent to this provider."""
        rules = self.dialect.key
        if rules.presence.played("none") == "none":
            return []
        if rules.form.played("bare") == "quoted":
            key = '"' + re.sub(r'(["\\])', r"\\\1", key) + '"'  # RFC 8941, 3.3.3
        first_sent = [] if rules.first_sent is None else [(rules.first_sent.at, formatdate(usegmt=True))]
        return [(rules.at, key), *first_sent]


def read(dialect: Contract, status: int, data: Any, headers: Mapping[str, str] | None = None) -> Outcome:
    """Understand a provider's answer; ``headers`` by their names in lower case."""
    if 200 <= status < 300:
        told = [*dialect.shapes(AnswerClass.ACCEPTED), *dialect.shapes(AnswerClass.REPLAYED)]
        found = (shapes.id_of(shape, data, headers or {}) for shape in told)
        return Outcome(Kind.SENT, next((number for number in found if number is not None), None))
    if status in (429, 503):
        return Outcome(Kind.BUSY)
    # 408 and 425 say nothing of what was done with the request; 409 may mean that our own first attempt is
    # running.
    if 400 <= status < 500 and status not in (408, 409, 425):
        return Outcome(Kind.REFUSED)
    return Outcome(Kind.UNKNOWN)


def _encoded(kind: str, body: Any) -> bytes:
    """Return a body in the form that its content type names."""
    if kind.partition(";")[0].strip().lower() == bodies.FORM:
        return urlencode(body, doseq=True, errors="replace").encode()
    # Escaped, because a text may hold half of a surrogate pair, which no encoding carries.
    return json.dumps(body).encode()


def _path(template: str, mail: Mail) -> str:
    """Return the path that a mail goes to; of a step that a mail says nothing of, such as an account, its name."""
    known = {"domain": parseaddr(mail.sender)[1].rpartition("@")[2]}
    return re.sub(r"\{(\w+)\}", lambda match: quote(known.get(match[1]) or match[1], safe=""), template)


_PLACEHOLDER = re.compile(r"\{(\w+)(\??)\}")


def render(template: Any, mail: Mail) -> Any:
    """Fill a route's template with a mail; None where a ``{name?}`` is empty, which drops the field.

    A list of one item that has ``{to}`` in it becomes a list of such items, one for each recipient.
    """
    values = {
        "from": mail.sender,
        "to": ", ".join(mail.recipients),
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "mailbox": mail.sender,
    }
    if isinstance(template, dict):
        rendered = {name: render(value, mail) for name, value in template.items()}
        return {name: value for name, value in rendered.items() if value is not None}
    if isinstance(template, list) and len(template) == 1 and _says_to(template[0]):
        return [render(template[0], replace(mail, recipients=(recipient,))) for recipient in mail.recipients]
    if isinstance(template, list):
        return [render(item, mail) for item in template]
    if not isinstance(template, str):
        return template
    if any(optional and not values.get(name) for name, optional in _PLACEHOLDER.findall(template)):
        return None
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], ""), template)


def _says_to(template: Any) -> bool:
    """Whether an item of a list is for one recipient: itself the address, or an object that has it."""
    return "{to}" in (template.values() if isinstance(template, dict) else (template,))
