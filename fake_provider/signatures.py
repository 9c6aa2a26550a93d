"""How events are signed: one small function for each scheme, over the same three things (id, time, body).

Standard Webhooks and Svix sign ``id.time.body`` under other header names, Stripe signs ``time.body`` and puts both into
one header, and the plain HMAC of many others signs the body alone, so nothing tells an old copy of it from a new one.

A signature can also be made wrong on purpose, in the ways in which it is wrong for real: of no key at all, of somebody
else's key, of another body, of long ago, or missing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

#: How an event is signed, in the words of a target file.
Name = Literal["standard", "svix", "stripe", "hmac", "none"]

#: A signature that is this many seconds old is older than any tolerance (5 minutes are usual).
STALE = 86_400.0

_PREFIX = "whsec_"


class Flaw(StrEnum):
    """What is wrong with the signature of an event that must not be believed."""

    BAD = "bad"
    STALE = "stale"
    ABSENT = "absent"
    OTHER_SECRET = "other-secret"
    TAMPERED = "tampered"


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way of signing. ``header``, ``prefix`` and ``encoding`` are for ``hmac`` alone."""

    name: Name = "standard"
    header: str = "X-Signature"
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"

    @property
    def timed(self) -> bool:
        """Whether the time is signed, so that an old signature can be told from a new one."""
        return self.name in ("standard", "svix", "stripe")

    def can_be(self, flaw: Flaw) -> bool:
        """Whether a signature of this scheme can be wrong in this way."""
        return self.name != "none" and (self.timed or flaw is not Flaw.STALE)

    def check_secret(self, secret: str) -> None:
        """Raise ValueError, with the remedy, unless something can be signed with it."""
        self.sign(secret, "", 0, b"")

    def sign(self, secret: str, number: str, timestamp: float, body: bytes) -> dict[str, str]:
        """Return the headers that make ``body`` the event ``number`` (its id) of this second."""
        return self._headers(lambda signed: _digest(self._key(secret), signed), number, int(timestamp), body)

    def sign_wrongly(
        self, flaw: Flaw, secret: str, number: str, timestamp: float, body: bytes, *, original: bytes
    ) -> dict[str, str]:
        """Return headers that are not to be believed; ``original`` is what stood there before tampering."""
        match flaw:
            case Flaw.ABSENT:
                return {}
            case Flaw.STALE:
                return self.sign(secret, number, timestamp - STALE, body)
            case Flaw.OTHER_SECRET:
                return self.sign(make_secret(), number, timestamp, body)
            case Flaw.TAMPERED:
                return self.sign(secret, number, timestamp, original)
            case Flaw.BAD:
                key = self._key(secret)
                return self._headers(lambda s: bytes(b ^ 0xFF for b in _digest(key, s)), number, int(timestamp), body)

    def _headers(self, digest: Callable[[bytes], bytes], number: str, seconds: int, body: bytes) -> dict[str, str]:
        match self.name:
            case "standard" | "svix":
                start = "webhook" if self.name == "standard" else "svix"
                signed = b".".join((number.encode(), str(seconds).encode(), body))
                return {
                    f"{start}-id": number,
                    f"{start}-timestamp": str(seconds),
                    f"{start}-signature": f"v1,{base64.b64encode(digest(signed)).decode()}",
                }
            case "stripe":
                return {"Stripe-Signature": f"t={seconds},v1={digest(str(seconds).encode() + b'.' + body).hex()}"}
            case "hmac":
                made = digest(body)
                shown = made.hex() if self.encoding == "hex" else base64.b64encode(made).decode()
                return {self.header: self.prefix + shown}
            case "none":
                return {}

    def _key(self, secret: str) -> bytes:
        """Return the bytes to sign with: base64 behind whsec_ for Standard Webhooks and Svix, the text itself else."""
        if self.name not in ("standard", "svix"):
            return secret.encode()
        try:
            return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise ValueError("a webhook secret is whsec_ followed by base64; make one with make_secret()") from None


def make_secret() -> str:
    """Return a new signing secret, good for every scheme."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def _digest(key: bytes, signed: bytes) -> bytes:
    return hmac.new(key, signed, hashlib.sha256).digest()
