"""What a fault makes of an answer: other headers, another body, or one that is whole on the wire and says nothing.

A caller can be told to come back later (``Retry-After``: RFC 9110, section 10.2.3), or elsewhere (``Location`` with 307
or 308: section 15.4.8), and it can get a body that is no answer: a page of some proxy, nothing at all, half of the
JSON, half of the gzip. All of them are complete HTTP messages; only who reads them notices.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from email.utils import formatdate

from sendtwice.fake_provider.faults import Fault, Verb
from sendtwice.fake_provider.messages import Passed, Request, Response

_PAGE = b"<!DOCTYPE html><html><head><title>Just a moment</title></head><body>One moment, please.</body></html>"


def altered(response: Response, fault: Fault, request: Request, *, now: float, scheme: str = "http") -> Response:
    """Return the answer as a fault says, at ``now``; the response itself is left as it is."""
    if fault.verb is Verb.GARBLE:
        response = _garbled(_own(response), str(fault.argument or "html"))
    headers = _with(response.headers, _headers(fault, request, now, scheme))
    body = response.body if fault.body is None else fault.body.encode()
    if headers == response.headers and body == response.body:
        return response
    return replace(response, headers=headers, body=body)


def chunked(response: Response) -> bytes:
    """Return the beginning of the answer in chunks (RFC 9112, section 7.1), as far as the middle of its body."""
    response = _own(response)
    fields = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
    half = response.body[: (len(response.body) + 1) // 2]
    head = f"HTTP/1.1 {response.status} \r\n{fields}Transfer-Encoding: chunked\r\n\r\n"
    # A chunk of no bytes would be the last one.
    return head.encode("latin-1") + (b"%x\r\n%s\r\n" % (len(half), half) if half else b"")


def _own(response: Response) -> Response:
    """Return an answer whose headers and body can be changed."""
    return response.plain() if isinstance(response, Passed) else response


def _with(headers: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    """Return the headers with others in the place of those of the same name, in whatever case."""
    names = {name.lower() for name in others}
    return {name: value for name, value in headers.items() if name.lower() not in names} | others


def _garbled(response: Response, how: str) -> Response:
    if how == "html":
        plain = {name: value for name, value in response.headers.items() if name.lower() != "content-encoding"}
        return replace(response, headers=_with(plain, {"Content-Type": "text/html"}), body=_PAGE)
    if how == "empty":
        return replace(response, body=b"")
    if how == "gzip":
        packed = gzip.compress(response.body)
        headers = _with(response.headers, {"Content-Encoding": "gzip"})
        return replace(response, headers=headers, body=packed[: len(packed) // 2])
    return replace(response, body=response.body[: len(response.body) // 2])


def _headers(fault: Fault, request: Request, now: float, scheme: str) -> dict[str, str]:
    found = dict(fault.headers)
    if fault.retry_after is not None:
        # A date knows no fractions: the next whole second, so that nobody is asked for less than was meant.
        at = formatdate(-(-(now + fault.retry_after) // 1), usegmt=True)
        found["Retry-After"] = at if fault.as_date else f"{fault.retry_after:g}"
    if fault.location is not None:
        found["Location"] = f"{scheme}://{_host(request, other=fault.location == 'other')}{request.target}"
    return found


def _host(request: Request, *, other: bool) -> str:
    """Return where a caller is sent: where it asked, or the same server under its other name."""
    asked = request.header("host") or "127.0.0.1"
    if not other:
        return asked
    before, colon, port = asked.rpartition(":")
    name, port = (before, f":{port}") if colon and "]" not in port else (asked, "")
    return f"{'127.0.0.1' if name == 'localhost' else 'localhost'}{port}"
