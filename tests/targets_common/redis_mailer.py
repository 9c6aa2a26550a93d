"""A mail API on Redis in one file, without a driver, that makes one mistake: its name is the first argument.

looks-up        GET, send, SET: two that both find nothing both send
pings-first     the same, with a PING before: what a pool does with a connection that has lain idle
opens           claims (SET NX), and sends without a claim when Redis does not answer
frees           claims, and lets go of the claim when the result cannot be written
forgets-first   claims, and gives up the claim before it writes the result
bricks          claims for good, and never asks whose a claim is
"""

import os
import socket
import sys

from plumbing import NotAccepted, OutcomeUnknown, Refused, error, hand_over, read_mail, serve

MISTAKE = sys.argv[1]
HOST, PORT = os.environ["REDIS"].split(":")
PATIENCE = 0.15  # seconds


class Redis:
    """One connection for one request."""

    def __init__(self):
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=PATIENCE)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        self.socket.sendall(f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis has left")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise OSError(rest)
        if kind != b"$":
            return rest
        return self.file.read(int(rest) + 2)[:-2].decode() if rest != "-1" else None


def send(request):
    mail = read_mail(request)
    if not request.key:
        return error(400, "missing_idempotency_key", "Idempotency-Key is required.")
    name = f"operation:{request.tenant}:{request.key}"
    return (looked_up if MISTAKE in ("looks-up", "pings-first") else claimed)(name, mail)


def looked_up(name, mail):
    try:
        redis = Redis()
        if MISTAKE == "pings-first":
            redis("PING")
        known = redis("GET", name)
        if known is not None:
            return 200, {"id": known}
        status, body = deliver(mail)
        if status == 200:
            redis("SET", name, body["id"])
        return status, body
    except OSError:
        return unavailable()


def claimed(name, mail):
    try:
        redis = Redis()
        mine = redis("SET", name, "sending", "NX") == "OK"
        known = None if mine else redis("GET", name)
    except OSError:
        if MISTAKE == "opens":
            return deliver(mail)
        return unavailable()
    if known == "sending":
        return error(409, "operation_in_progress", "The first request is running.")
    if not mine:
        return 200, {"id": known}
    status, body = deliver(mail)
    try:
        if MISTAKE == "forgets-first":
            redis("DEL", name)
        if status == 200:
            redis("SET", name, body["id"])
        elif status in (422, 503):
            redis("DEL", name)
    except OSError:
        if MISTAKE == "frees":
            Redis()("DEL", name)
        return unavailable()
    return status, body


def deliver(mail):
    try:
        return 200, {"id": hand_over(mail, timeout=1.0)}
    except Refused as problem:
        return error(422, "refused_by_provider", str(problem))
    except NotAccepted as problem:
        return error(503, "provider_busy", str(problem))
    except OutcomeUnknown as problem:
        return error(502, "outcome_unknown", str(problem))


def unavailable():
    return error(503, "store_unavailable", "Try again.")


serve({"/v1/messages": send})
