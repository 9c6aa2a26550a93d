"""In process is like over sockets: the same exception, the same answer, the same ledger, whatever the fault."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import pytest
import respx
import trio

from sendtwice.fake_provider.faults import Armed, Fault, Place, Verb
from sendtwice.fake_provider.in_process import InProcess
from sendtwice.fake_provider.provider import FakeProvider
from tests.fake_provider.kit import DEADLINE, body_for

T = TypeVar("T")
REQUEST, RESPONSE = Place.CLIENT_REQUEST, Place.CLIENT_RESPONSE
VENDOR = "https://api.resend.test"
#: Seconds a caller waits for an answer that is held.
SHORT = 0.3


@dataclass
class Engine:
    """A fake send API on an event loop in a thread of its own, as a plugin has it."""

    loop: asyncio.AbstractEventLoop
    fake: FakeProvider
    seen: list[str] = field(default_factory=list)
    patience: float = DEADLINE

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(DEADLINE)

    def call(self, what: Callable[..., T], *given: Any) -> T:
        async def call() -> T:
            return what(*given)

        return self.do(call())

    def arm(self, place: Place, verb: Verb, argument: str | float | None = None, **more: Any) -> Armed:
        return self.call(lambda: self.fake.faults.arm(Fault(place, verb, argument, **more)))

    def idle(self) -> None:
        """Wait until everything that was asked for is over."""
        self.do(self.fake.endpoint.idle())


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        made = Engine(loop, FakeProvider("resend", edge="client"))
        made.fake = made.call(lambda: FakeProvider("resend", edge="client", observe=made_observer(made)))
        made.do(made.fake.start())
        try:
            yield made
        finally:
            made.do(made.fake.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def made_observer(made: Engine) -> Any:
    def observe(kind: str, /, **fields: Any) -> None:
        sent = f" sent={fields['sent']}" if "sent" in fields else ""
        made.seen.append(f"{kind} {fields.get('connection')}{sent}")

    return observe


@pytest.fixture
def api() -> Iterator[Engine]:
    with engine() as made:
        yield made


def mail(key: str = "k1") -> dict[str, Any]:
    return {"json": body_for("resend"), "headers": {"Idempotency-Key": key, "Authorization": "Bearer re_1"}}


# --- The same over both ways ----------------------------------------------------------------------------

Send = Callable[[Engine], "str | tuple[int, bytes]"]
LATE = SHORT + 0.2
TIMEOUT = httpx.Timeout(DEADLINE, read=SHORT)


def outcome(what: httpx.Response | Exception) -> str | tuple[int, bytes]:
    if isinstance(what, Exception):
        return type(what).__name__
    return what.status_code, what.content


def blocking(api: Engine, *, sockets: bool) -> list[str | tuple[int, bytes]]:
    """Send one mail three times with a blocking client, and say how each went."""
    transport = None if sockets else InProcess(api.fake, api.loop)
    found: list[str | tuple[int, bytes]] = []
    with httpx.Client(
        base_url=api.fake.url, transport=transport, timeout=api.patience, trust_env=False, verify=False
    ) as client:
        for key in ("k1", "k1", "k2"):
            try:
                found.append(outcome(client.post("/emails", **mail(key))))
            except httpx.HTTPError as error:
                found.append(outcome(error))
            api.idle()
    return found


async def tasks(api: Engine, *, sockets: bool, idle: Callable[[], Awaitable[Any]]) -> list[str | tuple[int, bytes]]:
    """Send one mail three times with an asynchronous client, and say how each went."""
    transport = None if sockets else InProcess(api.fake, api.loop)
    found: list[str | tuple[int, bytes]] = []
    async with httpx.AsyncClient(
        base_url=api.fake.url, transport=transport, timeout=api.patience, trust_env=False, verify=False
    ) as client:
        for key in ("k1", "k1", "k2"):
            try:
                found.append(outcome(await client.post("/emails", **mail(key))))
            except httpx.HTTPError as error:
                found.append(outcome(error))
            await idle()
    return found


def under_asyncio(api: Engine, *, sockets: bool) -> list[str | tuple[int, bytes]]:
    return asyncio.run(tasks(api, sockets=sockets, idle=lambda: asyncio.to_thread(api.idle)))


def under_trio(api: Engine, *, sockets: bool) -> list[str | tuple[int, bytes]]:
    async def play() -> list[str | tuple[int, bytes]]:
        return await tasks(api, sockets=sockets, idle=lambda: trio.to_thread.run_sync(api.idle))

    return trio.run(play)


def in_the_engines_loop(api: Engine, *, sockets: bool) -> list[str | tuple[int, bytes]]:
    return api.do(tasks(api, sockets=sockets, idle=api.fake.endpoint.idle))


FAULTS: dict[str, tuple[Place, Verb, str | float | None, dict[str, Any]]] = {
    "none": (RESPONSE, Verb.DELAY, 0.001, {}),
    "request lost": (REQUEST, Verb.LOSE, None, {}),
    "request reset": (REQUEST, Verb.RESET, None, {}),
    "request closed": (REQUEST, Verb.CLOSE, None, {}),
    "request cut": (REQUEST, Verb.CUT, 40, {}),
    "request twice": (REQUEST, Verb.TWICE, None, {}),
    "request answered 503": (REQUEST, Verb.ANSWER, 503, {}),
    "request answered conflict": (REQUEST, Verb.ANSWER, "conflict", {}),
    "request delayed": (REQUEST, Verb.DELAY, LATE, {}),
    "connect reset": (REQUEST, Verb.RESET, None, {"stage": "connect"}),
    "connect closed": (REQUEST, Verb.CLOSE, None, {"stage": "connect"}),
    "headers reset": (REQUEST, Verb.RESET, None, {"stage": "headers"}),
    "headers closed": (REQUEST, Verb.CLOSE, None, {"stage": "headers"}),
    "headers answered 502": (REQUEST, Verb.ANSWER, 502, {"stage": "headers"}),
    "answer lost": (RESPONSE, Verb.LOSE, None, {}),
    "answer lost at its first byte": (RESPONSE, Verb.LOSE, "first-byte", {}),
    "answer lost in its body": (RESPONSE, Verb.LOSE, "in-body", {}),
    "answer lost in chunks": (RESPONSE, Verb.LOSE, "in-chunks", {}),
    "answer reset": (RESPONSE, Verb.RESET, None, {}),
    "answer closed": (RESPONSE, Verb.CLOSE, None, {}),
    "closed after the answer": (RESPONSE, Verb.CLOSE, "after-answer", {}),
    "answer cut at once": (RESPONSE, Verb.CUT, 0, {}),
    "answer cut in its head": (RESPONSE, Verb.CUT, 17, {}),
    "answer delayed": (RESPONSE, Verb.DELAY, LATE, {}),
    "answer replaced": (RESPONSE, Verb.ANSWER, 504, {}),
    "answer empty": (RESPONSE, Verb.GARBLE, "empty", {}),
    "answer is a page": (RESPONSE, Verb.GARBLE, "html", {}),
    "answer drips": (RESPONSE, Verb.DRIP, 0.05, {}),
}


def ledger(api: Engine) -> tuple[Any, ...]:
    """All that the provider knows of what it was asked and did."""
    deliveries = [(d.recipient, d.commit, d.mail.key) for d in api.fake.ledger.deliveries]
    attempts = [
        {name: value for name, value in attempt.as_json().items() if name not in ("at", "answered_at", "operation")}
        for attempt in api.fake.control.attempts.since(0)
    ]
    return api.fake.ledger.commits, deliveries, [_plain(attempt) for attempt in attempts], api.seen


def _plain(attempt: dict[str, Any]) -> dict[str, Any]:
    """An attempt without what is another one each time."""
    return {name: value for name, value in attempt.items() if isinstance(value, bool | int | str) and name != "id"}


def without_ids(found: list[str | tuple[int, bytes]]) -> list[Any]:
    """The id of each mail is another one; how many there are, and of what length, is not."""
    ids: dict[bytes, int] = {}
    return [one if isinstance(one, str) else (one[0], len(one[1]), ids.setdefault(one[1], len(ids))) for one in found]


#: Over sockets it is chance how much of a request is written before its sender learns that nobody listens any more.
CHANCE: dict[str, set[Any]] = {
    "connect reset": {"ConnectError", "ReadError", "RemoteProtocolError"},
    "connect closed": {"ReadError", "RemoteProtocolError"},
    "headers reset": {"ReadError", "RemoteProtocolError"},
    "headers closed": {"ReadError", "RemoteProtocolError"},
    "headers answered 502": {"ReadError", (502, b"")},
}


@pytest.mark.parametrize("way", [blocking, under_asyncio, under_trio, in_the_engines_loop])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_the_same_in_process_as_over_sockets(name: str, way: Any) -> None:
    place, verb, argument, more = FAULTS[name]
    found = []
    # Under trio, httpx leaves a generator behind when it cannot write.
    reference = under_asyncio if way is under_asyncio else blocking
    for sockets in (True, False):
        with engine() as api:
            api.patience = SHORT if argument == LATE else DEADLINE
            armed = api.arm(place, verb, argument, **more)
            outcomes = (reference if sockets else way)(api, sockets=sockets)
            if outcomes[0] in CHANCE.get(name, ()):
                outcomes[0] = "any of these"
            found.append((without_ids(outcomes), armed.fired, ledger(api)))
    over_sockets, in_process = found
    assert in_process == over_sockets
    assert in_process[1] == 1


# --- What is told, one by one ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "error", "deliveries"),
    [
        ("headers reset", httpx.ReadError, 0),
        ("headers closed", httpx.RemoteProtocolError, 0),
        ("request reset", httpx.ReadError, 0),
        ("request closed", httpx.RemoteProtocolError, 0),
        ("answer reset", httpx.ReadError, 1),
        ("answer closed", httpx.RemoteProtocolError, 1),
        ("answer lost in its body", httpx.ReadError, 1),
        ("answer delayed", httpx.ReadTimeout, 1),
    ],
)
def test_httpx_raises_what_it_is_known_to_raise(
    api: Engine, fault: str, error: type[Exception], deliveries: int
) -> None:
    place, verb, argument, more = FAULTS[fault]
    api.arm(place, verb, argument, **more)
    with httpx.Client(transport=InProcess(api.fake, api.loop), base_url=VENDOR, timeout=TIMEOUT) as client:
        with pytest.raises(httpx.HTTPError) as raised:
            client.post("/emails", **mail())
        assert type(raised.value) is error
        assert raised.value.request.url == f"{VENDOR}/emails"
        api.idle()
        assert api.fake.ledger.commits == deliveries


@pytest.mark.parametrize(
    ("url", "verb", "error"),
    [
        ("http://a.test", Verb.RESET, httpx.ConnectError),
        ("http://a.test", Verb.CLOSE, httpx.RemoteProtocolError),
        ("http://a.test", Verb.HOLD, httpx.ReadTimeout),
        ("https://a.test", Verb.RESET, httpx.ConnectError),
        ("https://a.test", Verb.CLOSE, httpx.ConnectError),
        ("https://a.test", Verb.HOLD, httpx.ConnectTimeout),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_connection_that_ends_before_anything_is_read_was_never_made(
    api: Engine, url: str, verb: Verb, error: type[Exception], asynchronous: bool
) -> None:
    """Over https there is a handshake first, and it fails in all three ways."""
    held = api.arm(REQUEST, verb, "there" if verb is Verb.HOLD else None, stage="connect")
    transport, timeout = InProcess(api.fake, api.loop), httpx.Timeout(DEADLINE, connect=SHORT, read=SHORT)

    async def ask() -> list[str | int]:
        async with httpx.AsyncClient(transport=transport, base_url=url, timeout=timeout) as client:
            try:
                await client.post("/emails", **mail())
            except httpx.TransportError as failed:
                api.call(api.fake.faults.withdraw, held)
                return [type(failed).__name__, (await client.post("/emails", **mail())).status_code]
        return []

    def ask_at_once() -> list[str | int]:
        with httpx.Client(transport=transport, base_url=url, timeout=timeout) as client:
            try:
                client.post("/emails", **mail())
            except httpx.TransportError as failed:
                api.call(api.fake.faults.withdraw, held)
                return [type(failed).__name__, client.post("/emails", **mail()).status_code]
        return []

    assert (asyncio.run(ask()) if asynchronous else ask_at_once()) == [error.__name__, 200]
    api.idle()
    assert api.fake.ledger.commits == 1


def test_what_a_caller_no_longer_waits_for_is_done_all_the_same(api: Engine) -> None:
    """The request is held before its commit; its caller gives up; then it is let go."""
    held = api.arm(REQUEST, Verb.HOLD, "there")
    with httpx.Client(transport=InProcess(api.fake, api.loop), base_url=VENDOR, timeout=TIMEOUT) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/emails", **mail())
        assert api.fake.ledger.commits == 0
        api.call(held.gate.set)
        api.idle()
        assert api.fake.ledger.commits == 1
        assert client.post("/emails", **mail()).status_code == 200
        assert api.fake.ledger.commits == 1
    assert api.seen[-3:-2] == ["client.response 1 sent=False"]


def test_a_cancelled_task_has_hung_up_and_its_mail_is_sent(api: Engine) -> None:
    held = api.arm(RESPONSE, Verb.HOLD, "there")

    async def give_up() -> None:
        async with httpx.AsyncClient(transport=InProcess(api.fake, api.loop), base_url=VENDOR) as client:
            task = asyncio.ensure_future(client.post("/emails", **mail()))
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(held.reached.wait(), api.loop))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            api.call(held.gate.set)
            await asyncio.to_thread(api.idle)

    asyncio.run(give_up())
    assert api.fake.ledger.commits == 1
    assert api.seen[-1] == "client.response 1 sent=False"


def test_an_idle_connection_is_used_again_and_a_dead_one_is_not(api: Engine) -> None:
    with httpx.Client(transport=InProcess(api.fake, api.loop), base_url=VENDOR) as client:
        for key in ("k1", "k2"):
            client.post("/emails", **mail(key))
        api.arm(RESPONSE, Verb.CLOSE, "after-answer")
        for key in ("k3", "k4"):
            client.post("/emails", **mail(key))
    requests = [line for line in api.seen if line.startswith("client.request")]
    assert requests == [f"client.request {number}" for number in (1, 1, 1, 2)]


def test_an_answer_can_be_read_as_it_comes(api: Engine) -> None:
    api.arm(RESPONSE, Verb.LOSE, "in-body")
    with httpx.Client(transport=InProcess(api.fake, api.loop), base_url=VENDOR) as client:
        with client.stream("POST", "/emails", **mail()) as answer:
            assert answer.status_code == 200
            with pytest.raises(httpx.ReadError):
                answer.read()
        with client.stream("POST", "/emails", **mail()) as answer:
            assert b"".join(answer.iter_bytes()).startswith(b"{")


def test_several_threads_send_at_once(api: Engine) -> None:
    statuses: list[int] = []
    with httpx.Client(transport=InProcess(api.fake, api.loop), base_url=VENDOR, timeout=DEADLINE) as client:
        held = api.arm(REQUEST, Verb.HOLD, "there", times=8)

        def send(number: int) -> None:
            statuses.append(client.post("/emails", **mail(f"k{number}")).status_code)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        api.do(held.fired_times(8))
        api.call(held.gate.set)
        for thread in threads:
            thread.join()
    assert statuses == [200] * 8
    assert api.fake.ledger.commits == 8


# --- respx ----------------------------------------------------------------------------------------------


def test_respx_routes_are_answered_by_the_provider(api: Engine) -> None:
    api.arm(RESPONSE, Verb.LOSE)
    with respx.mock(base_url=VENDOR) as routes:
        route = routes.post("/emails").mock(side_effect=InProcess(api.fake, api.loop).side_effect)
        with pytest.raises(httpx.ReadError):
            httpx.post(f"{VENDOR}/emails", **mail())
        answers = [httpx.post(f"{VENDOR}/emails", **mail()) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json() == answers[1].json() == route.calls.last.response.json()
    assert api.fake.ledger.commits == 1
    assert route.call_count == 3


@pytest.mark.parametrize("runs", [asyncio.run, lambda work: trio.run(lambda: work)])
def test_respx_routes_are_answered_in_tasks(api: Engine, runs: Any) -> None:
    api.arm(RESPONSE, Verb.CLOSE)

    async def send() -> list[int]:
        with respx.mock(base_url=VENDOR) as routes:
            routes.post("/emails").mock(side_effect=InProcess(api.fake, api.loop).side_effect)
            async with httpx.AsyncClient(base_url=VENDOR) as client:
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.post("/emails", **mail())
                return [(await client.post("/emails", **mail())).status_code]

    assert runs(send()) == [200]
    assert api.fake.ledger.commits == 1


def test_respx_answers_a_blocking_client_in_a_task_of_another_loop(api: Engine) -> None:
    async def send() -> int:
        with respx.mock(base_url=VENDOR) as routes:
            routes.post("/emails").mock(side_effect=InProcess(api.fake, api.loop).side_effect)
            return httpx.post(f"{VENDOR}/emails", **mail()).status_code  # noqa: ASYNC210  # as careless code does

    assert asyncio.run(send()) == 200
    assert api.fake.ledger.commits == 1


# --- Wrong use ------------------------------------------------------------------------------------------


def test_a_blocking_request_in_the_loop_that_should_answer_it_is_one_clear_error(api: Engine) -> None:
    async def send() -> None:
        with httpx.Client(transport=InProcess(api.fake, api.loop)) as client:
            client.post(f"{VENDOR}/emails", **mail())  # noqa: ASYNC212  # the mistake

    with pytest.raises(RuntimeError, match=r"use httpx\.AsyncClient, or call from another thread"):
        api.do(send())


def test_a_provider_that_has_stopped_refuses_the_connection() -> None:
    with engine() as api:
        transport = InProcess(api.fake, api.loop)
        with httpx.Client(transport=transport) as client:
            client.post(f"{VENDOR}/emails", **mail())
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.ConnectError):
        client.post(f"{VENDOR}/emails", **mail())


def test_a_caller_learns_that_the_provider_stops_while_it_waits() -> None:
    with engine() as api:
        held = api.arm(RESPONSE, Verb.HOLD, "there")
        found: list[Exception] = []

        def send() -> None:
            try:
                with httpx.Client(transport=InProcess(api.fake, api.loop), timeout=DEADLINE) as client:
                    client.post(f"{VENDOR}/emails", **mail())
            except httpx.HTTPError as error:
                found.append(error)

        thread = threading.Thread(target=send)
        thread.start()
        api.do(held.reached.wait())
    thread.join()
    assert [type(error) for error in found] == [httpx.ReadError]


def test_another_scheme_is_refused_as_over_sockets(api: Engine) -> None:
    with httpx.Client(transport=InProcess(api.fake, api.loop)) as client, pytest.raises(httpx.UnsupportedProtocol):
        client.get("ftp://api.resend.test/emails")


def test_nothing_of_it_is_loaded_unless_it_is_used() -> None:
    import subprocess  # noqa: PLC0415  # this test's own

    code = "import sys, sendtwice.fake_provider.provider; print([m for m in ('httpx', 'trio') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
