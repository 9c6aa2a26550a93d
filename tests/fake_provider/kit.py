"""What the tests of the fake provider share: providers, callers on raw sockets, scripted upstreams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.emulator.answers import Told
from sendtwice.fake_provider.emulator.engine import Emulator
from sendtwice.fake_provider.emulator.store import Store
from sendtwice.fake_provider.emulator.upstream import Kind, Outcome
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request, Response
from sendtwice.fake_provider.provider import FakeProvider

T = TypeVar("T")
DEADLINE = 60.0  # a hang, on a machine that has other things to do


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, with a deadline so that a hang is a failure."""

    async def within() -> T:
        async with asyncio.timeout(DEADLINE):
            return await work

    return asyncio.run(within())


@contextlib.asynccontextmanager
async def provider(dialect: str | Contract = "generic", **settings: Any) -> AsyncIterator[FakeProvider]:
    fake = FakeProvider(dialect, **settings)
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()


def body_for(contract: str, *, key: str | None = None, **changes: Any) -> dict[str, Any]:
    """A valid body; ``to``, ``subject``, ``text`` and ``sender`` are said in one way for all contracts."""
    to, sender = changes.pop("to", "ana@example.test"), changes.pop("sender", "shop@example.test")
    body: dict[str, Any] = {"subject": "Receipt", "text": "Thanks", **changes}
    if contract == "postfleet":
        body |= {"mailbox_id": sender, "to": to}
        if key is not None:
            body["client_id"] = key
    else:
        body |= {"from": sender, "to": [to]}
    return body


def request_for(
    contract: str,
    *,
    key: str | None = "k1",
    tenant: str = "Bearer one",
    path: str | None = None,
    headers: dict[str, str] | None = None,
    raw: bytes | None = None,
    **changes: Any,
) -> Request:
    """A request as the endpoint would read it."""
    sent = {"authorization": tenant, "user-agent": "tests", "content-type": "application/json"}
    if key is not None and contract != "postfleet":
        sent["idempotency-key"] = key
    sent |= headers or {}
    body = raw if raw is not None else json.dumps(body_for(contract, key=key, **changes)).encode()
    return Request("POST", path or contracts.load(contract).request.path, tuple((k, v) for k, v in sent.items()), body)


@dataclass
class Scripted:
    """An upstream that does what it is told: ``script`` holds the next outcomes, then it takes everything.

    ``unknown`` means taken and not told; ``lost`` means not taken and not told.
    """

    deduplicates: bool = False
    remembers: float = 1e9
    immediate: bool = False
    script: list[str] = field(default_factory=list)
    taken: list[Mail] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    gate: asyncio.Event | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, mail: Mail, key: str) -> Outcome:
        self.keys.append(key)
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        what = self.script.pop(0) if self.script else "sent"
        if what in {"sent", "unknown"} and not (self.deduplicates and key in self.known):
            self.taken.append(mail)
            self.known.add(key)
        # Whoever does not answer tells no id either.
        return Outcome(Kind.UNKNOWN, None) if what in {"lost", "unknown"} else Outcome(Kind(what), key)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@contextlib.asynccontextmanager
async def emulator(
    contract: str | Contract,
    upstream: Scripted | None = None,
    *,
    clock: Clock | None = None,
    state: Path | str = ":memory:",
    **settings: Any,
) -> AsyncIterator[tuple[Emulator, Scripted]]:
    to = upstream or Scripted()
    loaded = contracts.load(contract) if isinstance(contract, str) else contract
    engine = Emulator(loaded, upstream=to, store=Store(state), clock=clock, **settings)
    await engine.start()
    try:
        yield engine, to
    finally:
        await engine.stop()


async def ask(engine: Emulator, request: Request) -> Response:
    return await engine.begin(request).perform()


def said(response: Response) -> Any:
    return json.loads(response.body)


def kind(response: Response) -> AnswerClass | None:
    assert isinstance(response, Told)
    return response.kind


# --- Contracts of the tests' own -----------------------------------------------------------------------

#: A contract that has every kind of route, and says of keys only where they are.
MINE = """
name: mine
title: Mine
request: {path: /emails, body: {from: "{from}", to: ["{to}"], subject: "{subject}", text: "{text}"}}
mail: {required: [/to, /subject]}
routes:
  batch: {path: /emails/batch}
  bundle: {path: /bundles, mail: {items: /mails, required: [/to]}}
  draft: {path: /drafts, does: draft}
  approve: {path: "/drafts/{id}/approve", does: launch, asks: person}
  reject: {path: "/drafts/{id}/reject", does: reject, asks: person}
  launch:
    path: "/broadcasts/{id}/send"
    does: launch
    answers: {refused: {status: 400, code: {at: /name, is: validation_error}, body: {message: "It is not a draft."}}}
  resolve: {path: "/emails/{id}/resolve", does: resolve}
  provider-event: {path: /hooks/provider, does: reconcile}
  read: {method: GET, path: "/emails/{id}", does: read}
  list: {method: GET, path: /emails, does: read}
  event:
    path: /events/send
    key: ignored
    mail: {from: /data/from, to: /email, subject: /data/subject, text: /data/text}
  store-event:
    path: /events/store
    does: nothing
    key: optional
    key_at: "body:/idempotency_key"
    answers: {accepted: {status: 202, id: /id}, replayed: {status: 202, id: /id}}
  ping: {path: /ping, does: nothing}
answers:
  accepted: {status: 201, id: /id, body: {status: queued}}
  replayed: {status: 200, id: /id, body: {status: queued}}
  unauthorized: {status: [401, 403]}
  rate_limited:
    - {status: 429, code: {at: /code, is: rate_limited}}
    - {status: 402, code: {at: /code, is: quota}}
"""


def changed(base: str | Contract, /, **claims: Any) -> Contract:
    """A contract with other claims; ``a__b`` is ``b`` in ``a``."""
    loaded = contracts.load(base) if isinstance(base, str) else base
    data = loaded.model_dump(by_alias=True, exclude_unset=True)
    for path, value in claims.items():
        *way, last = path.split("__")
        place = data
        for step in way:
            place = place.setdefault(step, {})
        place[last] = value
    return Contract.model_validate(data)


def mine(**claims: Any) -> Contract:
    """The tests' own contract, with further claims."""
    return changed(Contract.model_validate(yaml.safe_load(MINE)), **claims)


def call(
    path: str = "/emails",
    body: Any = None,
    *,
    key: str | None = "k1",
    method: str = "POST",
    credential: str = "one",
    headers: dict[str, str] | None = None,
    raw: bytes | None = None,
    **changes: Any,
) -> Request:
    """A request to the tests' own contract: a mail where no body is given."""
    sent = {"authorization": f"Bearer {credential}", "content-type": "application/json", "host": "api.example.test:80"}
    if key is not None:
        sent["idempotency-key"] = key
    data = raw if raw is not None else json.dumps(body_for("mine", **changes) if body is None else body).encode()
    sent |= {name.lower(): value for name, value in (headers or {}).items()}
    return Request(method, path, tuple(sent.items()), data)


# --- On the wire ----------------------------------------------------------------------------------------


def message(body: dict[str, Any] | None = None, *, path: str = "/emails", **headers: str) -> bytes:
    """The bytes of a POST."""
    data = json.dumps(body if body is not None else body_for("generic")).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class Wire:
    """A raw connection, on which a FIN and an RST can be told apart."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @classmethod
    async def to(cls, fake: FakeProvider) -> Wire:
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", fake.port))
        return cls(sock)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def recv(self, limit: int = 65536) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.sock, limit)

    async def rest(self) -> tuple[bytes, str]:
        """Everything until the end, and how it ended: ``fin`` or ``rst``."""
        data = b""
        while True:
            try:
                more = await self.recv()
            except ConnectionResetError:
                return data, "rst"
            if not more:
                return data, "fin"
            data += more

    async def answer(self) -> tuple[int, bytes]:
        """One whole answer: status and body."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = await self.recv()
            assert more, data
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        while len(body) < length:
            body += await self.recv()
        return int(head.split()[1]), body

    def close(self) -> None:
        self.sock.close()


async def post(fake: FakeProvider | str, path: str, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    url = fake if isinstance(fake, str) else fake.url
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE, verify=False) as client:
        return await client.post(url + path, json=body, headers=headers)


async def get(fake: FakeProvider | str, path: str) -> httpx.Response:
    url = fake if isinstance(fake, str) else fake.url
    async with httpx.AsyncClient(trust_env=False, timeout=DEADLINE, verify=False) as client:
        return await client.get(url + path)


class Served:
    """A served emulator in its own process, which can be killed."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process, self.url = process, url

    @classmethod
    async def start(cls, contract: str, *arguments: str) -> Served:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "sendtwice.fake_provider.serve", "--contract", contract, "--port", "0", *arguments),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        line = json.loads(await process.stdout.readline())
        assert line["ready"] is True
        return cls(process, line["url"])

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        os.kill(self.process.pid, signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> int:
        if self.process.returncode is None:
            self.process.terminate()
        return await self.process.wait()
