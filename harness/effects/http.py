"""A count that an HTTP resource gives: a JSON number, or a list whose length counts."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import h11

from sendtwice.harness import placeholders
from sendtwice.harness.drivers.wire import Answer, Wire, decoded, serialise, tls_context
from sendtwice.harness.effects.asked import PER_OPERATION, ProbeError, shown, whole
from sendtwice.harness.judge.classes import parsed, pointer

if TYPE_CHECKING:
    from sendtwice.harness.target import Effects


@dataclass(slots=True)
class HttpProbe:
    """Asks by GET, and changes nothing."""

    settings: Effects
    _tls: ssl.SSLContext | None = field(default=None)

    @property
    def _url(self) -> str:
        return self.settings.http or ""

    @property
    def described(self) -> str:
        """The resource, without its query and without a password: either may hold a secret."""
        plain = self._url.partition("?")[0]
        scheme, _, rest = plain.partition("://")
        return f"GET {scheme}://{rest.rpartition('@')[2]}"

    @property
    def names(self) -> frozenset[str]:
        """What of an operation stands in the URL."""
        return frozenset(placeholders.names(self._url)) & PER_OPERATION

    async def count(self, values: Mapping[str, str]) -> int:
        """Ask, and read the number out of the answer."""
        answer = await self._ask(values)
        if not 200 <= answer.status < 300:
            hint = "; credentials go into target.effects.headers" if answer.status in (401, 403) else ""
            raise ProbeError(self._line(f"answered {answer.status}: {shown(decoded(answer.body))}".rstrip(": ") + hint))
        if answer.size > len(answer.body):
            raise ProbeError(self._line(f"answered {answer.size} bytes; let it give a number, or fewer of them"))
        data = parsed(answer.body)
        found = pointer(data, self.settings.count)
        number = whole(found)
        if number is None:
            place = f"at {self.settings.count}" if self.settings.count else "in its answer"
            what = "no number and no list" if found is None else f"{shown(found, 40)!r}, no number and no list,"
            raise ProbeError(
                f"target.effects.count: {self.described} has {what} {place}; "
                f"it answered {shown(decoded(answer.body))}; write the JSON Pointer of the count"
            )
        return number

    async def _ask(self, values: Mapping[str, str]) -> Answer:
        own = {name: quote(value, safe="") if name in PER_OPERATION else value for name, value in values.items()}
        url = urlsplit(placeholders.fill_text(self._url, own))
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = [(name, placeholders.fill_text(text, values)) for name, text in self.settings.headers.items()]
        if url.username is not None:
            pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
            headers.append(("Authorization", f"Basic {b64encode(pair.encode()).decode()}"))
        limit = self.settings.timeout
        if url.scheme == "https" and self._tls is None:
            self._tls = tls_context(verify=True)
        wire: Wire | None = None
        try:
            async with asyncio.timeout(limit):
                wire = await Wire.open(url.geturl(), timeout=limit, tls=self._tls)
                host = url.netloc.rpartition("@")[2]
                await wire.write(serialise("GET", path, host, [("Accept", "application/json"), *headers], b""))
                return await wire.answer("GET")
        except TimeoutError:
            raise ProbeError(
                self._line(f"gave no answer within {limit:g} s; see what it waits for, or raise target.effects.timeout")
            ) from None
        except (OSError, EOFError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise ProbeError(self._line(f"could not be asked ({shown(why)}); check that it runs")) from None
        except h11.RemoteProtocolError as error:
            raise ProbeError(self._line(f"gave no HTTP answer ({shown(error)}); check the address")) from None
        finally:
            if wire is not None:
                wire.close()

    def _line(self, what: str) -> str:
        return f"target.effects.http: {self.described} {what}"
