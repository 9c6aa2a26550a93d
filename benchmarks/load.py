"""The load client: keep-alive connections on plain sockets, each with one send in flight. A process of its own.

The same for every server, and cheaper than any of them, so that what is measured is the server. Reads one plan as
JSON from its standard input and prints one line of JSON: how long all the sends took, and the statuses.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

#: Seconds within which some connection gets an answer, or the server is taken for dead.
PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """So many sends to one server. ``{key}`` in the head stands for a key that is new each time."""

    port: int
    sends: int
    connections: int
    head: str
    body: str
    keys: str = ""  # what this plan's keys begin with

    def message(self, number: int) -> bytes:
        """Return the bytes of one request."""
        key = f"{self.keys}-{number:012}"
        return f"{self.head.format(key=key)}content-length: {len(self.body)}\r\n\r\n{self.body}".encode()


class _Connection:
    """One connection and the answer that it waits for."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""

    def status(self) -> int | None:
        """Read what is there; the status once the answer is whole."""
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the server ended a connection that should have been kept")
        self.data += more
        head, found, body = self.data.partition(b"\r\n\r\n")
        if not found:
            return None
        lowered = head.lower()
        at = lowered.find(b"\r\ncontent-length:")
        if at >= 0:
            if len(body) < int(lowered[at + 17 :].split(b"\r", 1)[0]):
                return None
        elif not body.endswith(b"0\r\n\r\n"):  # chunked, which some servers cannot be talked out of
            return None
        self.data = b""
        return int(head[9:12])


def run(plan: Plan) -> dict[str, Any]:
    """Do all the sends, and say how long they took and how they were answered."""
    messages = [plan.message(number) for number in range(plan.sends)]
    connections = [_Connection(plan.port) for _ in range(min(plan.connections, plan.sends))]
    statuses: Counter[int] = Counter()
    poll = select.poll()
    by_number = {connection.socket.fileno(): connection for connection in connections}
    left = iter(messages)
    begun = time.perf_counter()
    for number, connection in by_number.items():
        poll.register(number, select.POLLIN)
        connection.socket.sendall(next(left))
    waiting = len(connections)
    while waiting:
        ready = poll.poll(PATIENCE * 1000)
        if not ready:
            raise TimeoutError(f"no answer within {PATIENCE:g} s")
        for number, _ in ready:
            connection = by_number[number]
            status = connection.status()
            if status is None:
                continue
            statuses[status] += 1
            message = next(left, None)
            if message is None:
                waiting -= 1
            else:
                connection.socket.sendall(message)
    seconds = time.perf_counter() - begun
    for connection in connections:
        connection.socket.close()
    return {"seconds": seconds, "statuses": statuses}


def as_input(plan: Plan) -> bytes:
    """Return what the process reads."""
    return json.dumps(asdict(plan)).encode()


if __name__ == "__main__":
    print(json.dumps(run(Plan(**json.load(sys.stdin)))))  # noqa: T201  # it is what the program is run for
