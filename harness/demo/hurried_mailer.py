"""A small send API as a hurried engineer writes it. It works in every test that calls it twice in a row.

``POST /emails`` looks the key up, hands the mail to the provider, and then stores the answer under the key. It needs
nothing but Python and is the flawed half of ``sendtwice demo``.
"""

import json
import os
import threading
import urllib.request
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

answers: dict[str, tuple[bytes, bytes]] = {}  # key -> (the request's body, the answer's body)
lock = threading.Lock()


def deliver(mail: bytes, provider: str) -> None:
    """Hand the mail to the provider, and once more if that fails: networks are unreliable."""
    request = urllib.request.Request(  # noqa: S310  # the provider's own URL
        provider + "/emails", data=mail, headers={"Content-Type": "application/json"}
    )
    for attempt in (1, 2):
        try:
            urllib.request.urlopen(request, timeout=5).close()  # noqa: S310
        except OSError:
            if attempt == 2:
                raise
        else:
            return


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: "Server"

    def do_GET(self) -> None:
        """Say that the server is up."""
        self.answer(200, b"{}")

    def do_POST(self) -> None:
        """Send a mail, once for each key."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers.get("Idempotency-Key")
        mail = json.loads(body)
        if not all("@" in address for address in mail["to"]):
            self.answer(422, b'{"error": "not an address"}')
            return
        with lock:
            seen = answers.get(key or "")
        if key and seen:
            if json.loads(seen[0]) == mail:
                self.answer(200, seen[1])
            else:
                self.answer(409, b'{"error": "this key was used for another mail"}')
            return
        try:
            deliver(body, self.server.provider)
        except OSError as error:
            self.answer(502, json.dumps({"error": str(error)}).encode())
            return
        answer = json.dumps({"id": str(uuid.uuid4())}).encode()
        with lock:
            answers[key or ""] = (body, answer)
        self.answer(200, answer)

    def answer(self, status: int, body: bytes) -> None:
        """Write an answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


class Server(ThreadingHTTPServer):
    """Takes bursts."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, provider: str) -> None:
        """Listen on this machine, and hand mails to ``provider``."""
        super().__init__(("127.0.0.1", port), Handler)
        self.provider = provider


if __name__ == "__main__":
    Server(int(os.environ["PORT"]), os.environ["MAIL_PROVIDER_URL"]).serve_forever()
