"""HTTP plumbing for the stand-alone programs in tests/flawed and tests/sound, and nothing else.

What a program does about keys, and what it remembers, is its own business and stands in its own file.
Standard library only; shares no code with the project under test.
"""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import socketserver
import time
from urllib.parse import urlsplit


class Answer(Exception):
    """Raised anywhere in a handler: this is what the caller gets."""

    def __init__(self, status, body, headers=None):
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


def error(status, name, message):
    return status, {"statusCode": status, "name": name, "message": message}


class Request:
    def __init__(self, headers, raw, method="POST", target="/"):
        self.headers, self.raw, self.method = headers, raw, method
        self.path, _, self.query = target.partition("?")
        try:
            self.body = json.loads(raw)
        except ValueError:
            self.body = None

    @property
    def tenant(self):
        return self.headers.get("Authorization", "")

    @property
    def key(self):
        """The value of the Idempotency-Key header, None if there is none. More than one is an error."""
        lines = self.headers.get_all("Idempotency-Key", [])
        if len(lines) > 1:
            message = "Idempotency-Key must be given once."
            raise Answer(*error(400, "invalid_idempotency_key", message))
        return lines[0].strip(" \t") if lines else None


def read_mail(request):
    """The mail in the body of a request, `to` always a list; a mail that is incomplete is answered 422."""
    body = request.body
    if not isinstance(body, dict):
        raise Answer(*error(400, "validation_error", "The body must be a JSON object."))
    for field in ("from", "to", "subject", "text"):
        if not body.get(field):
            raise Answer(*error(422, "missing_required_field", f"Missing `{field}` field."))
    to = body["to"] if isinstance(body["to"], list) else [body["to"]]
    for address in [body["from"], *to]:
        if not isinstance(address, str) or "@" not in address:
            raise Answer(*error(422, "validation_error", "Invalid address in `from` or `to`."))
    for field in ("subject", "text"):
        if not isinstance(body[field], str):
            raise Answer(*error(422, "validation_error", f"`{field}` must be a string."))
    return {"from": body["from"], "to": to, "subject": body["subject"], "text": body["text"]}


class NotAccepted(Exception):
    """The provider certainly did not take the mail now; it may later."""


class Refused(Exception):
    """The provider certainly did not take the mail, and says it is the mail's fault."""

    def __init__(self, name):
        super().__init__(f"The provider refused the mail: {name}.")
        self.name = name


class OutcomeUnknown(Exception):
    """The mail was handed over and nobody can say whether the provider took it."""


def hand_over(mail, *, key=None, timeout=3.0):
    """Give one mail to the provider, once: returns the provider's id or raises one of the three above."""
    url = urlsplit(os.environ["MAIL_PROVIDER_URL"])
    headers = {
        "Authorization": "Bearer re_0000",
        "Content-Type": "application/json",
        "User-Agent": "mailer/1.0",
    }
    if key is not None:
        headers["Idempotency-Key"] = key
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
    try:
        connection.connect()
    except OSError as problem:
        raise NotAccepted(f"no connection to the provider: {problem}") from problem
    try:
        connection.request("POST", url.path.rstrip("/") + "/emails", json.dumps(mail), headers)
        response = connection.getresponse()
        status, raw = response.status, response.read()
        if 200 <= status < 300:
            return json.loads(raw)["id"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as problem:
        raise OutcomeUnknown(f"no usable answer from the provider: {problem!r}") from problem
    finally:
        connection.close()
    if status in (429, 503):
        raise NotAccepted(f"the provider is busy: {status}")
    if 400 <= status < 500 and status != 408:
        raise Refused(_name_in(raw) or str(status))
    # 500, 502, 504 and the like may come from somewhere on the way, and after the mail got through.
    raise OutcomeUnknown(f"the provider answered {status}")


def _name_in(raw):
    try:
        return json.loads(raw).get("name")
    except (ValueError, AttributeError):
        return None


def signed(request, secret):
    """Standard Webhooks: is this request signed with the secret (whsec_...) and at most five minutes old?"""
    identity = request.headers.get("webhook-id", "")
    sent_at = request.headers.get("webhook-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdigit()) or abs(time.time() - int(sent_at)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{identity}.{sent_at}.".encode("latin-1") + request.raw
    expected = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    given = request.headers.get("webhook-signature", "").encode("latin-1").split()
    return any(hmac.compare_digest(expected.encode(), one) for one in given)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # status line, headers and body leave together
    disable_nagle_algorithm = True

    def do_GET(self):
        if callable(self.server.routes) and self.path != "/healthz":
            return self._respond(self.server.routes, b"")
        status = 200 if self.path == "/healthz" else 404
        return self._answer(status, {"ok": status == 200})

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            return self._answer(*error(411, "length_required", "Content-Length is required."))
        raw = self.rfile.read(length)
        if len(raw) < length:  # the caller left in the middle of its request: there is no request
            self.close_connection = True
            return None
        routes = self.server.routes
        handler = routes if callable(routes) else routes.get(self.path)
        if handler is None:
            return self._answer(*error(404, "not_found", "No such path."))
        return self._respond(handler, raw)

    def _respond(self, handler, raw):
        try:
            answer = handler(Request(self.headers, raw, self.command, self.path))
        except Answer as raised:
            answer = raised.status, raised.body, raised.headers
        except Exception as problem:  # a programming error, as any framework shows it
            print(repr(problem), flush=True)
            answer = error(500, "internal_server_error", "Something went wrong.")
        return self._answer(*answer)

    def _answer(self, status, body, headers=None):
        raw = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        if status != 204:  # RFC 9110, 8.6
            self.send_header("Content-Length", str(len(raw)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass  # a caller that hung up


def serve(routes):
    """Listen on 127.0.0.1:$PORT for ever. `routes`: path -> function: Request -> (status, body[, headers]); or one
    such function for everything."""
    with _Server(("127.0.0.1", int(os.environ["PORT"])), _Handler) as server:
        server.routes = routes
        server.serve_forever()
