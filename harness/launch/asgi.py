"""A target that is an ASGI app in this process: served on a loopback socket, so that every fault of its wire is real.

The app is behind an endpoint of ours. It runs on the endpoint's event loop, or on the one that a test gives. Its
answer goes out when it has said its last word, and it may go on working after that. A caller that goes away is an
``http.disconnect`` to the app, and cancels nothing. What an app raises is its own bug: the caller gets a 500, and the
traceback goes to the log ``sendtwice.asgi``, which is stderr where nobody has said otherwise.

Nothing of it can be killed or paused. See the ASGI specification, version 3.0: HTTP & WebSocket, and Lifespan.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, TypeVar
from urllib.parse import unquote

from sendtwice.fake_provider.faults import Fault
from sendtwice.fake_provider.http import Endpoint
from sendtwice.fake_provider.messages import Passed, Request, Response
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.launch import External
from sendtwice.harness.launch.process import free_port

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

#: Seconds that an app has to start, and to end.
PATIENCE = 20.0
_SPEC = {"version": "3.0", "spec_version": "2.3"}
#: Fields that the wire's own framing says.
_FRAMING = {b"content-length", b"transfer-encoding", b"connection"}
_log = logging.getLogger("sendtwice.asgi")
_Value = TypeVar("_Value")


class AsgiLauncher(External):
    """Serves an ASGI app as the target; it cannot crash or pause."""

    def __init__(self, app: App, *, loop: asyncio.AbstractEventLoop | None = None, patience: float = PATIENCE) -> None:
        """``loop``: where the app runs, if not on the endpoint's loop; ``patience``: seconds to start, and to end."""
        if not _takes_three(app):
            raise HarnessError(
                f"{app!r} is no ASGI app: it must take scope, receive and send; put a WSGI app in a2wsgi.WSGIMiddleware"
            )
        self._app, self._given, self._patience = app, loop, patience
        self._port = free_port()
        self._endpoint = Endpoint(self, edge="client")
        self._life: _Lifespan | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # --- Called by the bench -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the app, then listen."""
        self._life = life = _Lifespan(self._app)
        await self._over_there(life.start(self._patience))
        await self._endpoint.start(port=self._port)

    async def stop(self) -> None:
        """Listen no more, end what the app still does, and let it end itself."""
        await self._endpoint.stop()
        if self._life is None or not self.loop.is_running():
            return
        await self._over_there(self._end_tasks())
        life, self._life = self._life, None
        await self._over_there(life.stop(self._patience))

    def ports(self, name: str | None = None) -> list[int]:
        """Return its port."""
        del name
        return [self._port]

    # --- Called by the endpoint ----------------------------------------------------------------------------

    def begin(self, request: Request) -> _Call:
        """Take a request to the app."""
        state = dict(self._life.state) if self._life is not None else {}
        return _Call(self, request, {**_scope(request, self._port), "state": state})

    @property
    def app(self) -> App:
        """The app."""
        return self._app

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where the app runs."""
        return self._given or asyncio.get_running_loop()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the app's loop; called from the endpoint's."""

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.loop.call_soon_threadsafe(begin)

    async def _over_there(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        """Await something in the app's loop."""
        if self.loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Call:
    """One request to the app."""

    operation: str | None = None
    attempt: str | None = None
    key: str | None = None
    faults: tuple[Fault, ...] = ()

    def __init__(self, launcher: AsgiLauncher, request: Request, scope: Message) -> None:
        self.notes: dict[str, Any] = {}
        self._launcher, self._request, self._scope = launcher, request, scope
        self._loop = launcher.loop
        self._answered: concurrent.futures.Future[Response] = concurrent.futures.Future()
        self._heard = False
        self._over = asyncio.Event()  # in the app's loop: the caller has gone, or has its answer
        self._head: Message | None = None
        self._body = bytearray()

    # In the endpoint's loop:

    async def perform(self) -> Response:
        """Run the app until it has answered."""
        self._launcher.spawn(self._run())
        return await asyncio.wrap_future(self._answered)

    def answer(self, what: str | float) -> Response:
        """Return a plain answer in the app's stead."""
        return Response(int(what) if str(what).isdecimal() else 503)

    def hung_up(self) -> None:
        """Tell the app that its caller has gone."""
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._over.set)

    # In the app's loop:

    async def _run(self) -> None:
        try:
            await self._launcher.app(self._scope, self._receive, self._send)
            if not self._answered.done():
                raise RuntimeError("the app has returned without a whole answer")  # noqa: TRY301  # like its own
        except Exception:  # noqa: BLE001  # whatever it is: it is the app's
            _log.exception("the target's app failed at %s %s", self._request.method, self._request.path)
        finally:
            if not self._answered.done():
                self._done(Response(500, b"Internal Server Error", {"Content-Type": "text/plain; charset=utf-8"}))

    async def _receive(self) -> Message:
        if not self._heard:
            self._heard = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start" and self._head is None:
            self._head = message
        elif kind == "http.response.body" and self._head is not None:
            if self._answered.done():
                return  # its caller has an answer already
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                self._done(_response(self._head, bytes(self._body), self._request.method))
        else:
            raise RuntimeError(f"{kind!r} was not expected from the app now")

    def _done(self, response: Response) -> None:
        self._over.set()
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # nobody waits for it any more
            self._answered.set_result(response)


class _Lifespan:
    """An app's start and end; an app that knows neither is left alone. All of it is in the app's loop."""

    def __init__(self, app: App) -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._heard: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self, patience: float) -> None:
        """Start the app; :class:`HarnessError` when it says that it cannot."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        answer = await self._ask("lifespan.startup", patience, "start")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            words = str(answer.get("message") or "").strip()
            if words:
                _log.error("the target's app failed to start: %s", words)
            why = f": {words.splitlines()[-1]}" if words else ""
            await asyncio.gather(self._task, return_exceptions=True)
            raise HarnessError(f"the target's app says that it cannot start{why}; mend its lifespan")

    async def stop(self, patience: float) -> None:
        """Let the app end."""
        if self._task is None or self._task.done():
            return
        try:
            answer = await self._ask("lifespan.shutdown", patience, "end")
            if answer is not None and answer["type"] == "lifespan.shutdown.failed":
                _log.error("the target's app failed to end: %s", answer.get("message") or "it does not say why")
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._said.get, self._heard.put)
        except Exception:  # noqa: BLE001  # what it raises is its way to say so
            _log.debug("the target's app knows no lifespan", exc_info=True)

    async def _ask(self, what: str, patience: float, word: str) -> Message | None:
        """Say something to the app and return its answer; None when it has ended, or never listened."""
        assert self._task is not None
        self._said.put_nowait({"type": what})
        answer = asyncio.ensure_future(self._heard.get())
        try:
            done, _ = await asyncio.wait({answer, self._task}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answer.cancel()
        if not done:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            raise HarnessError(f"the target's app did not {word} within {patience:g} s; look at its lifespan")
        return answer.result() if answer in done else None


def _takes_three(app: Any) -> bool:
    if not callable(app):
        return False
    try:
        inspect.signature(app).bind({}, None, None)
    except TypeError:
        return False
    except ValueError:  # it does not tell
        return True
    return True


def _scope(request: Request, port: int) -> Message:
    path = request.path
    return {
        "type": "http",
        "asgi": _SPEC,
        "http_version": request.version,
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": request.target.partition("?")[2].encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", port),
    }


def _response(head: Message, body: bytes, method: str) -> Response:
    status = int(head["status"])
    fields = [(bytes(n), bytes(v)) for n, v in head.get("headers") or () if bytes(n).lower() not in _FRAMING]
    plain = Response(status, body, {name.decode("latin-1"): value.decode("latin-1") for name, value in fields})
    if len({name.lower() for name, _ in fields}) == len(fields):
        return plain
    # A field that stands in it twice, such as Set-Cookie, goes out twice.
    bodyless = status in (204, 304) or status < 200
    lines = [b"HTTP/1.1 %d " % status, *(b"%s: %s" % field for field in fields)]
    lines += [] if bodyless else [b"Content-Length: %d" % len(body)]
    start = b"".join(line + b"\r\n" for line in lines)
    return Passed(status, b"" if bodyless or method == "HEAD" else body, start=start, plain=lambda: plain)
