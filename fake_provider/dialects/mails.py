"""The mail in a request: who, to whom and what, from the places that a contract names.

Vendors write an address as text (``Ana <ana@example.test>``), as several in one text, as a list, or as an object; here
all of them become bare addresses. A request may also hold the whole mail as one MIME message (RFC 5322).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses
from typing import Any

from sendtwice.fake_provider.contracts.wire import MailPlaces, Mime
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.ledger import Mail

#: A bare address, which most are: nothing in it that begins a name, a comment or another address.
_PLAIN = re.compile(r"[^\s<>,;:()\"]+")
#: What vendors call the address in an object that has a name beside it.
_ADDRESS_FIELDS = ("email", "address", "Email")


def read(places: MailPlaces, body: Any, *, key: str | None = None, raw: bytes | None = None) -> Mail:
    """Return the mail that ``body`` asks for; ``raw`` are the bytes that it stood in, where it stood in them alone."""
    recipients = [address for place in (places.to, *places.copies) for address in addresses(pointers.get(body, place))]
    mail = Mail(
        _text(pointers.get(body, places.sender)),
        tuple(dict.fromkeys(recipients)),
        _text(pointers.get(body, places.subject)),
        _text(pointers.get(body, places.text)),
        _text(pointers.get(body, places.html)),
        key,
        raw if raw is not None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
    )
    message = None if places.mime is None else decoded(body, places.mime)
    return mail if message is None else _completed(mail, message)


def decoded(body: Any, place: Mime) -> bytes | None:
    """Return the MIME message in a body, or None when there is none."""
    given = pointers.get(body, place.at)
    if not isinstance(given, str) or not given:
        return None
    if place.encoding == "none":
        return given.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        return None


def addresses(value: Any) -> list[str]:
    """Return the bare addresses in a value, in their order."""
    if isinstance(value, list):
        return [address for item in value for address in addresses(item)]
    text = _text(value).strip()
    if not text:
        return []
    if _PLAIN.fullmatch(text):
        return [text]
    # What the parser cannot make anything of is kept as it is: whether it is an address is asked later.
    found = [address for _, address in getaddresses([text])]
    return found if found and all("@" in address for address in found) else [text]


def _completed(mail: Mail, data: bytes) -> Mail:
    """Return ``mail`` with what it lacks taken from its MIME message, which is what the recipient sees."""
    # The newer policies of the standard library raise on a good many broken headers; this one never does.
    message = message_from_bytes(data)
    headed = [address for name in ("to", "cc", "bcc") for address in addresses(_headers(message, name))]
    return Mail(
        mail.sender or "".join(_headers(message, "from")[:1]),
        mail.recipients or tuple(dict.fromkeys(headed)),
        mail.subject or "".join(_headers(message, "subject")[:1]),
        mail.text or _part(message, "text/plain"),
        mail.html or _part(message, "text/html"),
        mail.key,
        data,
    )


def _headers(message: Message, name: str) -> list[str]:
    """Return the values of a header, with their encoded words (RFC 2047) decoded."""
    found = []
    for given in message.get_all(name, []):
        folded = " ".join(str(given).split())
        try:
            found.append(str(make_header(decode_header(folded))))
        except (MessageError, LookupError, ValueError):  # words in a charset that nobody knows, or that is not kept to
            found.append(folded)
    return found


def _part(message: Message, kind: str) -> str:
    """Return the text of the first part of a kind that is no attachment."""
    part = next(
        (p for p in message.walk() if p.get_content_type() == kind and p.get_content_disposition() != "attachment"),
        None,
    )
    payload = None if part is None else part.get_payload(decode=True)
    if part is None or not isinstance(payload, bytes):
        return ""
    try:
        text = payload.decode(part.get_content_charset("utf-8"), "replace")
    except LookupError:
        text = payload.decode("utf-8", "replace")
    # The message's last line end is the form's, not the text's.
    return text.replace("\r\n", "\n").removesuffix("\n")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = next((value[name] for name in _ADDRESS_FIELDS if value.get(name)), None)
    return "" if value is None else str(value)
