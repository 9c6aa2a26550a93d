"""The doctor proves what it says, and finds what is broken: one that cannot fail is worth nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from click.testing import CliRunner

from sendtwice.fake_provider import altered, connections, webhook_wire
from sendtwice.fake_provider import http as endpoint
from sendtwice.fake_provider.connections import Connection
from sendtwice.fake_provider.faults import GARBLES, STAGED, VERBS, Armed, Verb
from sendtwice.fake_provider.http import Endpoint
from sendtwice.harness import doctor
from sendtwice.harness.cli import main
from sendtwice.harness.clocks import library
from sendtwice.harness.doctor import capabilities, console, overlap, rows
from sendtwice.harness.doctor.peers import RawPeer
from sendtwice.harness.doctor.rows import Row, State
from sendtwice.harness.drivers.caller import Caller
from sendtwice.harness.drivers.wire import Wire
from sendtwice.harness.edges.link import Side
from sendtwice.harness.edges.proxy_link import Link
from sendtwice.harness.launch.process import Processes
from tests.fake_provider.kit import run

Patch = pytest.MonkeyPatch


def looked(where: str) -> list[Row]:
    return run(doctor.looked(where))


@pytest.fixture(scope="module")
def report() -> doctor.Report:
    return run(doctor.examine())


def test_every_fault_does_on_this_machine_what_it_is_called(report: doctor.Report) -> None:
    assert [(row.where, row.what, row.seen, row.should) for row in report.wrong] == []
    assert all(row.state is State.OK for row in report.rows)


def test_there_is_a_probe_for_every_fault_of_every_crossing_with_every_argument(report: doctor.Report) -> None:
    probed = {row.what for row in report.faults}
    for place, verbs in VERBS.items():
        for verb in verbs:
            assert any(what.startswith(f"{place}: {verb}") for what in probed), (place, verb)
        for stage in STAGED.get(place, ()):
            assert f"{place} ({stage}): reset" in probed
    on = {where: {row.what for row in report.faults if row.where == where} for where in doctor.WIRES}
    for argument in ("before-answer", "first-byte", "in-body"):
        for where in ("served API", "proxy", "our caller"):
            assert f"client.response: lose {argument}" in on[where]
    for where in ("served API", "proxy"):
        assert {"client.response: lose in-chunks", "client.response: close after-answer"} <= on[where]
        for crossing in ("client.request", "client.response"):
            assert {f"{crossing}: garble {how}" for how in GARBLES} <= on[where]
            assert {f"{crossing}: answer 503, {more}" for more in SAID} <= on[where]
            assert {f"{crossing}: answer 307, to {which} origin" for which in ("the same", "another")} <= on[where]
    assert {"pause (SIGSTOP)", "resume (SIGCONT)", "crash (SIGKILL)"} <= probed


SAID = (
    "retry after 2 s",
    "retry after 0.5 s",
    "retry after 2 s (a date)",
    "with headers and a body of its own",
)


def test_what_only_a_server_can_do_to_an_answer_is_not_looked_for_where_we_call(report: doctor.Report) -> None:
    ours = {row.what for row in report.faults if row.where in ("our caller", "our webhooks", "the API's events")}
    assert ours
    assert not [what for what in ours if any(word in what for word in ("garble", "drip", "in-chunks", "after"))]


def test_requests_of_the_same_instant_are_seen_to_overlap(report: doctor.Report) -> None:
    assert report.spread is not None
    assert report.spread.overlapped
    assert 0 < report.spread.written < 1e6
    assert 0 < report.spread.arrived < 1e6
    wide = overlap.Spread(20, 7000.0, 10.0, by_kernel=True, overlapped=True)
    assert wide.row().state is State.OK
    assert "are 7000 microseconds apart" in str(wide.warning)
    apart = overlap.Spread(20, 10.0, 10.0, by_kernel=True, overlapped=False)
    assert (apart.row().state, apart.warning) == (State.WRONG, None)


# --- What is broken is found ---------------------------------------------------------------------------------------


def an_answer_that_is_not_changed(patch: Patch) -> None:
    patch.setattr(endpoint, "altered", lambda response, *_, **__: response)


def half_a_second_of_patience(patch: Patch) -> None:
    """Dates are rounded down, so that they ask for less than was meant."""

    def formatted(seconds: float, **_: bool) -> str:
        return formatdate(seconds - 1, usegmt=True)

    patch.setattr(altered, "formatdate", formatted)


def gzip_that_can_be_read(patch: Patch) -> None:
    real = gzip.compress
    patch.setattr(gzip, "compress", lambda body: real(body) * 2)


def chunks_with_a_last_one(patch: Patch) -> None:
    patch.setattr(endpoint, "chunked", lambda response: altered.chunked(response) + b"0\r\n\r\n")


def chunks_of_everything(patch: Patch) -> None:
    patch.setattr(endpoint, "chunked", lambda response: altered.chunked(replace(response, body=response.body * 2)))


def a_drip_at_once(patch: Patch) -> None:
    patch.setattr(endpoint, "_DROPS", 1)


def a_connection_that_ends_after_it(patch: Patch) -> None:
    real = Endpoint._drip

    async def drip(self: Endpoint, connection: Connection, *said: Any) -> bool:
        await real(self, connection, *said)
        connection.close()
        return False

    patch.setattr(Endpoint, "_drip", drip)


def an_origin_that_is_not_another(patch: Patch) -> None:
    patch.setattr(altered, "_host", lambda request, **_: request.header("host"))


def _closes(transport: Any) -> None:
    transport.close()


def fin_for_rst(patch: Patch) -> None:
    patch.setattr(connections, "abort", _closes)


def rst_for_fin(patch: Patch) -> None:
    patch.setattr(Connection, "close", Connection.reset)


def a_byte_too_few(patch: Patch) -> None:
    def write(connection: Connection, data: bytes) -> None:
        connection._transport.write(data[:-1] if len(data) == rows.CUT else data)

    patch.setattr(Connection, "write", write)


def an_answer_that_stops(patch: Patch) -> None:
    def write(connection: Connection, data: bytes) -> None:
        connection._transport.write(data[:-1])

    patch.setattr(Connection, "write", write)


def _instead(verb: Verb, does: Callable[[Connection, Armed], bool]) -> Callable[[Patch], None]:
    """Break one verb of an endpoint: what it does stands in ``does``."""

    def broken(patch: Patch) -> None:
        real = Endpoint._stopped

        async def stopped(self: Endpoint, connection: Connection, armed: Armed) -> bool:
            if armed.fault.verb is verb:
                armed.gate.set()
                return does(connection, armed)
            return await real(self, connection, armed)

        patch.setattr(Endpoint, "_stopped", stopped)

    return broken


def _goes_on(_: Connection, __: Armed) -> bool:
    return False


def half_a_delay(patch: Patch) -> None:
    real = Endpoint._stopped
    patch.setattr(rows, "DELAY", 0.2)  # half of it is not made up for by a machine that is busy

    async def stopped(self: Endpoint, connection: Connection, armed: Armed) -> bool:
        if armed.fault.verb is not Verb.DELAY:
            return await real(self, connection, armed)
        await asyncio.sleep(float(armed.fault.argument or 0) / 2)
        return False

    patch.setattr(Endpoint, "_stopped", stopped)


def once_for_twice(patch: Patch) -> None:
    patch.setattr(endpoint, "Verb", _without(Verb.TWICE))


def _without(verb: Verb) -> Any:
    """The verbs as something that knows one of them not."""

    class Verbs:
        def __getattr__(self, name: str) -> Any:
            return object() if name == verb.name else Verb[name]

    return Verbs()


def an_effect_before_its_request(patch: Patch) -> None:
    real = Endpoint._exchange

    async def exchange(self: Endpoint, connection: Connection, request: Any, understood: Any) -> bool:
        await understood.perform()
        return await real(self, connection, request, self.service.begin(request))

    patch.setattr(Endpoint, "_exchange", exchange)


@pytest.mark.parametrize(
    ("where", "broken", "found", "seen"),
    [
        ("fake provider", fin_for_rst, "provider.response: lose", "FIN after 0 bytes, one effect"),
        ("served API", fin_for_rst, "client.request: reset", "FIN after 0 bytes, no effect"),
        ("proxy", fin_for_rst, "client.response: cut 17", "FIN after 17 bytes, one effect"),
        ("proxy", rst_for_fin, "client.response: close", "RST after 0 bytes, one effect"),
        ("served API", a_byte_too_few, "client.response: cut 17", "RST after 16 bytes, one effect"),
        (
            "fake provider",
            _instead(Verb.HOLD, _goes_on),
            "provider.response: hold",
            "something came while it was held, one effect; let go: 200, one effect",
        ),
        (
            "proxy",
            _instead(Verb.HOLD, _goes_on),
            "client.request: hold",
            "something came while it was held, one effect; let go: 200, one effect",
        ),
        ("served API", an_answer_that_stops, "a plain exchange", "TimeoutError"),
        ("served API", half_a_delay, "client.request: delay 0.2", "no effect before it; only 0.1"),
        ("served API", once_for_twice, "client.request: twice", "200, one effect"),
        ("proxy", once_for_twice, "client.request: twice", "200, one effect"),
        ("fake provider", an_effect_before_its_request, "provider.request: close", "FIN after 0 bytes, one effect"),
        ("served API", an_effect_before_its_request, "client.request: garble html", "200, one effect: a page of HTML"),
        *(
            (where, an_answer_that_is_not_changed, f"client.response: garble {how}", "200, one effect: whole JSON")
            for where, how in (("served API", "html"), ("served API", "empty"), ("served API", "half"))
        ),
        ("proxy", an_answer_that_is_not_changed, "client.response: garble gzip", "200, one effect: whole JSON"),
        *(
            ("served API", an_answer_that_is_not_changed, f"client.request: answer 503, {more}", "503, no effect, ")
            for more in SAID
        ),
        (
            "served API",
            half_a_second_of_patience,
            "client.request: answer 503, retry after 2 s (a date)",
            "503, no eff",
        ),
        ("served API", gzip_that_can_be_read, "client.response: garble gzip", "200, one effect: the whole of its gzip"),
        (
            "served API",
            chunks_with_a_last_one,
            "client.response: lose in-chunks",
            "RST after 23 of 45 bytes in chunks, and",
        ),
        ("proxy", chunks_with_a_last_one, "client.response: lose in-chunks", "RST after 7 of 13 bytes in chunks, and"),
        (
            "fake provider",
            chunks_of_everything,
            "provider.response: lose in-chunks",
            "RST after 45 of 45 bytes in chunks",
        ),
        ("served API", rst_for_fin, "client.response: close after-answer", "RST after 114 bytes, one effect"),
        (
            "served API",
            a_drip_at_once,
            "client.response: drip 0.03",
            "0.03 s late or more, in one piece: 200, one effect",
        ),
        (
            "served API",
            a_connection_that_ends_after_it,
            "client.response: drip 0.03",
            "0.03 s late or more, bit by bit: 200, one effect, then FIN",
        ),
        (
            "proxy",
            an_origin_that_is_not_another,
            "client.request: answer 307, to another origin",
            "307, no effect, Location: http://x/emails",
        ),
    ],
)
def test_a_fault_that_is_broken_where_we_answer_is_found(
    where: str, broken: Callable[[Patch], None], found: str, seen: str, monkeypatch: Patch
) -> None:
    broken(monkeypatch)
    monkeypatch.setattr(rows, "LONGEST", 0.3)
    wrong = {row.what: row for row in looked(where) if row.state is State.WRONG}
    assert found in wrong
    assert wrong[found].seen.startswith(seen)
    assert wrong[found].should is not None


def test_the_byte_that_a_lost_answer_may_give_is_counted(monkeypatch: Patch) -> None:
    def generous(self: Connection, data: bytes) -> None:
        self._transport.write(data if len(data) > 1 else data * 2)

    monkeypatch.setattr(Connection, "write", generous)
    wrong = {row.what: row.seen for row in looked("served API") if row.state is State.WRONG}
    assert wrong == {"client.response: lose first-byte": "RST after 2 bytes, one effect"}


def _wire_closes(self: Wire) -> None:
    self.writer.close()


def our_fin_for_rst(patch: Patch) -> None:
    patch.setattr(Wire, "reset", _wire_closes)


def our_whole_request(patch: Patch) -> None:
    real = Wire.write

    async def write(self: Wire, data: bytes) -> None:
        await real(self, data + b"}" if data.endswith(b'"') else data)

    patch.setattr(Wire, "write", write)


def our_impatience(patch: Patch) -> None:
    async def withheld(*_: Any) -> None:
        """Wait for nothing."""

    patch.setattr(Caller, "_withheld", withheld)


def their_fin_for_rst(patch: Patch) -> None:
    patch.setattr(webhook_wire, "abort", _closes)


def their_impatience(patch: Patch) -> None:
    async def waited(_: Armed) -> None:
        """Wait for nothing."""

    patch.setattr(webhook_wire, "_waited", waited)


@pytest.mark.parametrize(
    ("where", "broken", "found"),
    [
        ("our caller", our_fin_for_rst, "client.response: lose in-body"),
        ("our caller", our_fin_for_rst, "webhook.request: cut 17"),
        ("our caller", our_whole_request, "client.request: lose"),
        ("our caller", our_whole_request, "client.request: hold"),
        ("our caller", our_impatience, "client.response: hold"),
        ("our caller", our_impatience, "client.response: delay 0.03"),
        ("the API's events", their_fin_for_rst, "webhook.request: reset"),
        ("the API's events", their_impatience, "webhook.request: hold"),
        ("the API's events", their_impatience, "webhook.response: delay 0.03"),
    ],
)
def test_a_fault_that_is_broken_where_we_call_is_found(
    where: str, broken: Callable[[Patch], None], found: str, monkeypatch: Patch
) -> None:
    broken(monkeypatch)
    monkeypatch.setattr(rows, "LONGEST", 0.3)
    assert found in {row.what for row in looked(where) if row.state is State.WRONG}


def test_a_store_edge_that_ends_otherwise_is_found(monkeypatch: Patch) -> None:
    real = Side.finish

    async def finish(self: Side, *, reset: bool) -> None:
        await real(self, reset=not reset)

    monkeypatch.setattr(Side, "finish", finish)
    wrong = {row.what: row.seen for row in looked("store edge") if row.state is State.WRONG}
    assert wrong["store.request: reset"] == "FIN after 0 bytes, no effect"
    assert wrong["store.response: close"] == "RST after 0 bytes, one effect"


def test_a_proxy_that_lets_a_cut_request_through_is_found(monkeypatch: Patch) -> None:
    real = Link.cut

    async def cut(self: Link, data: bytes) -> None:
        await real(self, data + b"x")

    monkeypatch.setattr(Link, "cut", cut)
    (wrong,) = [row for row in looked("proxy") if row.state is State.WRONG]
    assert (wrong.what, wrong.seen) == (
        "client.request: cut 17",
        "RST after 0 bytes, no effect; 18 bytes came through",
    )


def test_a_process_that_is_not_stopped_and_a_crash_that_discards_nothing_are_found(monkeypatch: Patch) -> None:
    async def pause(_: Processes, __: str) -> None:
        """Stop nothing."""

    @contextlib.asynccontextmanager
    async def callers_die(_: Endpoint) -> Any:
        yield

    monkeypatch.setattr(Processes, "pause", pause)
    monkeypatch.setattr(Endpoint, "callers_die", callers_die)
    monkeypatch.setattr("sendtwice.harness.doctor.processes.LONGEST", 0.5)
    seen = {row.what: (row.state, row.seen) for row in looked("target")}
    assert seen["pause (SIGSTOP)"] == (State.WRONG, "the process and its child count on")
    assert seen["crash (SIGKILL)"] == (
        State.WRONG,
        "both are gone; what it had sent is discarded, one effect",
    )


def test_a_wire_that_cannot_be_set_up_is_wrong_and_not_a_traceback(monkeypatch: Patch) -> None:
    async def start(*_: Any, **__: Any) -> int:
        raise OSError("no sockets today")

    monkeypatch.setattr(Endpoint, "start", start)
    (wrong,) = looked("proxy")
    assert (wrong.state, wrong.seen) == (State.WRONG, "OSError: no sockets today")


def test_a_probe_that_never_ends_is_wrong(monkeypatch: Patch) -> None:
    monkeypatch.setattr(rows, "LONGEST", 0.05)

    async def never() -> rows.Seen:
        await asyncio.Event().wait()
        raise AssertionError

    row = run(rows.probed("wire", "what", never))
    assert (row.state, row.seen) == (State.WRONG, "it did not come to its end within 0.05 s")


# --- What is here, and how it is told ------------------------------------------------------------------------------


def test_what_is_missing_is_said_with_what_it_is_needed_for_and_fails_nothing(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(capabilities, "_POSTGRES", "/nowhere/postgres")
    monkeypatch.setattr(library, "_FOLDERS", ())
    found = {row.what: row for row in run(capabilities.of_this_machine())}
    for what in ("node", "redis-server", "postgres", "docker", "docker daemon", "libfaketime", "openssl"):
        assert found[what].state is State.MISSING
        assert "needed" in found[what].seen
    for what in ("Python", "platform", "SO_LINGER"):
        assert found[what].state is State.OK


def test_a_library_that_does_not_move_the_clock_is_not_taken_for_one(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "libfaketime.so.1").write_bytes(b"no library")
    monkeypatch.setattr(library, "_FOLDERS", (str(tmp_path),))
    found = {row.what: row for row in run(capabilities.of_this_machine())}
    assert found["libfaketime"].state is State.MISSING
    assert "does not move the clock of a Python child" in found["libfaketime"].seen


def test_a_kernel_whose_ends_cannot_be_told_apart_is_said_so(monkeypatch: Patch) -> None:
    monkeypatch.setattr(RawPeer, "reset", RawPeer.close)
    found = {row.what: row for row in run(capabilities.of_this_machine())}
    assert (found["SO_LINGER"].state, "no fault can be trusted" in found["SO_LINGER"].seen) == (State.MISSING, True)


SCHEMA = {
    "type": "object",
    "required": ["schema", "sendtwice", "verdict", "seconds", "faults", "same_instant", "machine", "warnings"],
    "properties": {
        "verdict": {"enum": ["proven", "wrong"]},
        "faults": {"type": "array", "minItems": 100, "items": {"$ref": "#/$defs/row"}},
        "machine": {"type": "array", "minItems": 10, "items": {"$ref": "#/$defs/row"}},
        "same_instant": {"required": ["requests", "written_within_us", "arrived_within_us", "by_kernel"]},
    },
    "$defs": {
        "row": {
            "required": ["where", "what", "state", "seen", "should", "seconds"],
            "properties": {"state": {"enum": ["ok", "wrong", "not here"]}},
        }
    },
}


def test_the_command_tells_a_person_and_a_program_the_same(tmp_path: Path) -> None:
    begun = time.monotonic()
    result = CliRunner().invoke(main, ["doctor", "--json", str(tmp_path / "doctor.json")], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert time.monotonic() - begun < 20  # 1 s where nothing else goes on
    told = json.loads((tmp_path / "doctor.json").read_text())
    jsonschema_rs.validate(SCHEMA, told)
    assert told["verdict"] == "proven"
    lines = result.stdout.splitlines()
    for row in [*told["faults"], *told["machine"]]:
        assert any(row["state"] in line and row["what"] in line and row["seen"] in line for line in lines)
    assert lines[-1].startswith(f"all {len(told['faults'])} do what they are called here, seen in ")


def test_something_wrong_is_named_and_ends_with_4(monkeypatch: Patch) -> None:
    bad = Row("proxy", "client.response: reset", State.WRONG, "FIN after 0 bytes", "RST after 0 bytes")
    good = Row("proxy", "client.response: close", State.OK, "FIN after 0 bytes")

    async def examine() -> doctor.Report:
        return doctor.Report([bad, good], [], None, 0.1)

    monkeypatch.setattr(doctor, "examine", examine)
    result = CliRunner().invoke(main, ["doctor", "--quiet", "--json", "-"], standalone_mode=False)
    assert result.return_value == 4
    assert json.loads(result.stdout)["verdict"] == "wrong"
    assert result.stderr.splitlines() == [
        "proxy",
        "  wrong     client.response: reset  FIN after 0 bytes; it should be: RST after 0 bytes",
        "1 of 2 do not do what they are called here: client.response: reset (proxy)",
    ]


def test_a_place_that_cannot_be_written_is_found_first(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", "--json", str(tmp_path / "no" / "x.json")])
    assert result.exit_code == 2
    assert "does not exist as a folder" in result.stderr


def test_a_warning_and_what_is_missing_are_told() -> None:
    wide = overlap.Spread(20, 7000.0, 10.0, by_kernel=False, overlapped=True)
    missing = Row("this machine", "docker", State.MISSING, "not found; needed for targets in containers")
    stream = io.StringIO()
    console.show(doctor.Report([], [missing], wide, 0.2), stream, quiet=True)
    assert stream.getvalue().splitlines() == [
        "this machine",
        "  not here  docker  not found; needed for targets in containers",
        f"warning: {wide.warning}",
        "not here: docker",
        "all 1 do what they are called here, seen in 0.2 s",
    ]
