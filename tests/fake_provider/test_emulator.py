"""The emulator keeps each shipped contract, request by request."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.clock import Clock
from sendtwice.fake_provider.contracts import AnswerClass
from sendtwice.fake_provider.emulator.upstream import HttpUpstream, Kind
from sendtwice.fake_provider.ledger import Mail
from tests.fake_provider.kit import Scripted, ask, body_for, changed, emulator, kind, provider, request_for, run, said

KEYED = ("postfleet", "rasket", "pylota", "resend")
INLINE = ("postfleet", "resend")

# What the seeds say, written out: the emulator must not be tested against the file that it reads.
FIRST = {"postfleet": 201, "rasket": 200, "pylota": 202, "resend": 200}
REPLAY = {"postfleet": 200, "rasket": 200, "pylota": 202, "resend": 200}
CONFLICT = {
    "postfleet": ("/code", "idempotency_conflict"),
    "rasket": ("/name", "invalid_idempotent_request"),
    "pylota": ("/code", "idempotency_conflict"),
    "resend": ("/name", "invalid_idempotent_request"),
}


@pytest.mark.parametrize("name", KEYED)
def test_a_repeat_gets_the_first_id_and_no_second_mail(name: str) -> None:
    async def play() -> None:
        async with emulator(name) as (engine, upstream):
            first = await ask(engine, request_for(name))
            await engine.settled()
            again = await ask(engine, request_for(name))
            assert (first.status, again.status) == (FIRST[name], REPLAY[name])
            assert said(first)["id"] == said(again)["id"]
            await engine.settled()
            assert len(upstream.taken) == 1

    run(play())


def test_a_replay_is_marked_as_its_contract_says_and_a_first_answer_never_is() -> None:
    async def play() -> None:
        for name, header, field in (
            ("rasket", "true", None),
            ("pylota", "true", True),
            ("postfleet", None, None),
            ("resend", None, None),
        ):
            async with emulator(name) as (engine, _):
                first = await ask(engine, request_for(name))
                await engine.settled()
                again = await ask(engine, request_for(name))
                assert "Idempotent-Replayed" not in first.headers
                assert "deduplicated" not in said(first)
                assert again.headers.get("Idempotent-Replayed") == header
                assert said(again).get("deduplicated") == field

    run(play())


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("change", [{"to": "eve@example.test"}, {"text": "other"}, {"subject": "other"}])
def test_another_request_under_a_used_key_is_refused_and_spoils_nothing(name: str, change: dict[str, Any]) -> None:
    async def play() -> None:
        async with emulator(name) as (engine, upstream):
            first = await ask(engine, request_for(name))
            await engine.settled()
            other = await ask(engine, request_for(name, **change))
            pointer, code = CONFLICT[name]
            assert (other.status, said(other)[pointer[1:]]) == (409, code)
            assert said(first)["id"] not in other.body.decode()
            again = await ask(engine, request_for(name))
            assert said(again)["id"] == said(first)["id"]
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize("name", KEYED)
def test_the_order_of_fields_and_blanks_are_not_another_request(name: str) -> None:
    async def play() -> None:
        async with emulator(name) as (engine, upstream):
            body = body_for(name, key="k1")
            first = await ask(engine, request_for(name, raw=json.dumps(body).encode()))
            await engine.settled()
            turned = json.dumps(dict(reversed(body.items())), indent=3).encode()
            again = await ask(engine, request_for(name, raw=turned))
            assert said(first)["id"] == said(again)["id"]
            assert len(upstream.taken) == 1

    run(play())


def test_raw_bytes_are_compared_where_the_contract_compares_them() -> None:
    async def play() -> None:
        contract = changed("resend", fingerprint__parts=["raw"])
        async with emulator(contract) as (engine, _):
            body = body_for("resend")
            await ask(engine, request_for("resend", raw=json.dumps(body).encode()))
            again = await ask(engine, request_for("resend", raw=json.dumps(body, indent=1).encode()))
            assert kind(again) is AnswerClass.CONFLICT

    run(play())


def test_the_path_is_part_of_a_request_where_the_contract_says_so() -> None:
    async def play() -> None:
        batch = json.dumps([body_for("rasket")]).encode()
        for name, expected in (("rasket", AnswerClass.CONFLICT), ("pylota", AnswerClass.CONFLICT)):
            async with emulator(name) as (engine, upstream):
                await ask(engine, request_for(name))
                other = {"rasket": "/emails/batch", "pylota": "/reply"}[name]
                raw = batch if name == "rasket" else None
                answer = await ask(engine, request_for(name, path=other, raw=raw))
                assert kind(answer) is expected
                await engine.settled()
                assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize("name", INLINE)
def test_a_repeat_in_flight_is_told_so_and_replayed_afterwards(name: str) -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(name, upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, request_for(name)))
            await upstream.reached.wait()
            during = await ask(engine, request_for(name))
            other = await ask(engine, request_for(name, text="other"))
            assert (during.status, kind(during)) == (409, AnswerClass.IN_PROGRESS)
            assert kind(other) is AnswerClass.CONFLICT
            assert upstream.gate is not None
            upstream.gate.set()
            done = await first
            again = await ask(engine, request_for(name))
            assert said(done)["id"] == said(again)["id"]
            assert len(upstream.taken) == 1

    run(play())


def test_a_repeat_waits_where_the_contract_waits() -> None:
    async def play() -> None:
        contract = changed("rasket", delivery="inline")
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(contract, upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, request_for("rasket")))
            await upstream.reached.wait()
            repeats = [asyncio.create_task(ask(engine, request_for("rasket"))) for _ in range(20)]
            await asyncio.sleep(0)
            assert not any(repeat.done() for repeat in repeats)
            assert upstream.gate is not None
            upstream.gate.set()
            answers = [await first, *[await repeat for repeat in repeats]]
            assert len({said(answer)["id"] for answer in answers}) == 1
            assert [kind(a) for a in answers].count(AnswerClass.REPLAYED) == 20
            assert len(upstream.taken) == 1

    run(play())


def test_one_who_waited_for_a_send_that_was_released_sends_and_the_rest_replay() -> None:
    async def play() -> None:
        contract = changed("rasket", delivery="inline")
        upstream = Scripted(gate=asyncio.Event(), script=["busy"])
        async with emulator(contract, upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, request_for("rasket")))
            await upstream.reached.wait()
            repeats = [asyncio.create_task(ask(engine, request_for("rasket"))) for _ in range(5)]
            await asyncio.sleep(0)
            assert upstream.gate is not None
            upstream.gate.set()
            assert kind(await first) is AnswerClass.FAILED
            kinds = sorted([str(kind(await repeat)) for repeat in repeats])
            assert kinds == ["accepted", *["replayed"] * 4]
            assert len(upstream.taken) == 1

    run(play())


def test_a_wait_has_an_end() -> None:
    async def play() -> None:
        contract = changed("rasket", delivery="inline")
        upstream = Scripted(gate=asyncio.Event())
        async with emulator(contract, upstream, waits_for=0.05) as (engine, _):
            first = asyncio.create_task(ask(engine, request_for("rasket")))
            await upstream.reached.wait()
            assert kind(await ask(engine, request_for("rasket"))) is AnswerClass.IN_PROGRESS
            assert upstream.gate is not None
            upstream.gate.set()
            await first

    run(play())


@pytest.mark.parametrize("name", KEYED)
def test_without_a_key_each_request_is_a_send_or_is_refused(name: str) -> None:
    async def play() -> None:
        async with emulator(name) as (engine, upstream):
            answers = [await ask(engine, request_for(name, key=None)) for _ in range(2)]
            await engine.settled()
            if name == "pylota":
                assert [kind(answer) for answer in answers] == [AnswerClass.KEY_MISSING] * 2
                assert said(answers[0])["code"] == "idempotency_key_required"
                assert not upstream.taken
            else:
                assert len({said(answer)["id"] for answer in answers}) == 2
                assert len(upstream.taken) == 2

    run(play())


@pytest.mark.parametrize(
    ("name", "key", "allowed"),
    [
        ("postfleet", "", False),
        ("postfleet", "k" * 256, True),
        ("postfleet", "k" * 257, False),
        ("rasket", "", False),
        ("rasket", "k" * 256, True),
        ("rasket", "k" * 257, False),
        ("pylota", "k" * 255, True),
        ("pylota", "k" * 256, False),
        ("pylota", "ké", False),
        ("resend", "k" * 256, True),
        ("resend", "k" * 257, False),
        ("resend", "__proto__", True),
    ],
)
def test_a_key_that_breaks_the_rules_is_refused_before_any_effect(name: str, key: str, allowed: bool) -> None:
    async def play() -> None:
        async with emulator(name) as (engine, upstream):
            answer = await ask(engine, request_for(name, key=key))
            await engine.settled()
            assert kind(answer) is (AnswerClass.ACCEPTED if allowed else AnswerClass.KEY_INVALID)
            assert len(upstream.taken) == allowed

    run(play())


def test_keys_are_never_cut_or_folded() -> None:
    async def play() -> None:
        async with emulator("rasket") as (engine, upstream):
            for key in ("k" * 255, "k" * 256, "K" * 256):
                await ask(engine, request_for("rasket", key=key))
            await engine.settled()
            assert len(upstream.taken) == 3

    run(play())


@pytest.mark.parametrize(
    ("claims", "key", "expected"),
    [
        ({"key__form": "either"}, '"k1"', AnswerClass.REPLAYED),
        ({"key__form": "bare"}, '"k1"', AnswerClass.ACCEPTED),
        ({"key__case": "folded"}, "K1", AnswerClass.REPLAYED),
        ({"key__case": "sensitive"}, "K1", AnswerClass.ACCEPTED),
        ({"key__empty": "absent"}, "", AnswerClass.ACCEPTED),
        ({"key__charset": "token"}, "k 1", AnswerClass.KEY_INVALID),
        ({"key__charset": "uuid"}, "k1", AnswerClass.KEY_INVALID),
        ({"key__charset": "visible-ascii", "key__invalid": "ignore"}, "k 1", AnswerClass.ACCEPTED),
        ({"duplicates": "refuse"}, "k1", AnswerClass.DUPLICATE),
        ({"duplicates": "execute"}, "k1", AnswerClass.ACCEPTED),
        ({"duplicates": "accept"}, "k1", AnswerClass.ACCEPTED),
    ],
)
def test_other_rules_for_keys_are_kept_too(claims: dict[str, Any], key: str, expected: AnswerClass) -> None:
    async def play() -> None:
        first = changed("resend", **{k: v for k, v in claims.items() if k != "key__charset"})
        async with emulator(first if "key__charset" not in claims else changed("resend", **claims)) as (
            engine,
            _,
        ):
            if "key__charset" not in claims:
                await ask(engine, request_for("resend", key="k1"))
            assert kind(await ask(engine, request_for("resend", key=key))) is expected

    run(play())


def test_a_key_given_twice_is_refused() -> None:
    async def play() -> None:
        async with emulator("resend") as (engine, upstream):
            request = request_for("resend")
            twice = type(request)("POST", "/emails", (*request.headers, ("idempotency-key", "k2")), request.body)
            assert kind(await ask(engine, twice)) is AnswerClass.KEY_INVALID
            assert not upstream.taken

    run(play())


@pytest.mark.parametrize("key", [1, ["k"], {"a": 1}, True, "\ud800"])
def test_a_key_in_the_body_must_be_text(key: Any) -> None:
    async def play() -> None:
        async with emulator("postfleet") as (engine, upstream):
            raw = json.dumps({**body_for("postfleet"), "client_id": key}).encode()
            assert kind(await ask(engine, request_for("postfleet", raw=raw))) is AnswerClass.KEY_INVALID
            assert not upstream.taken

    run(play())


@pytest.mark.parametrize(
    ("name", "same_tenant_other_mailbox", "other_tenant"),
    [("postfleet", 2, 2), ("pylota", 2, 2), ("rasket", 1, 2), ("resend", 1, 2)],
)
def test_a_key_belongs_to_its_scope(name: str, same_tenant_other_mailbox: int, other_tenant: int) -> None:
    async def play() -> None:
        cases: list[tuple[dict[str, Any], int]] = [
            ({"sender": "other@example.test"}, same_tenant_other_mailbox),
            ({"tenant": "Bearer two"}, other_tenant),
        ]
        for change, deliveries in cases:
            async with emulator(name) as (engine, upstream):
                first = await ask(engine, request_for(name))
                other = await ask(engine, request_for(name, **change))
                await engine.settled()
                assert len(upstream.taken) == deliveries
                assert said(first)["id"] not in other.body.decode()

    run(play())


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("change", [{"subject": ""}, {"to": ""}, {"to": "nobody"}])
def test_a_refused_request_leaves_no_key(name: str, change: dict[str, Any]) -> None:
    async def play() -> None:
        async with emulator(name) as (engine, upstream):
            bad = await ask(engine, request_for(name, **change))
            assert (bad.status, kind(bad)) == (422, AnswerClass.REFUSED)
            fixed = await ask(engine, request_for(name))
            assert kind(fixed) is AnswerClass.ACCEPTED
            await engine.settled()
            assert len(upstream.taken) == 1

    run(play())


def test_a_refusal_is_stored_where_the_contract_stores_it() -> None:
    async def play() -> None:
        async with emulator(changed("resend", outcomes__invalid="stored")) as (engine, upstream):
            bad = await ask(engine, request_for("resend", subject=""))
            again = await ask(engine, request_for("resend", subject=""))
            fixed = await ask(engine, request_for("resend"))
            assert [kind(bad), kind(again), kind(fixed)] == [
                AnswerClass.REFUSED,
                AnswerClass.REFUSED,
                AnswerClass.CONFLICT,
            ]
            assert not upstream.taken

    run(play())


@pytest.mark.parametrize(("policy", "calls", "last"), [("stored", 1, "refused"), ("released", 2, "accepted")])
def test_a_providers_refusal_is_stored_or_released(policy: str, calls: int, last: str) -> None:
    async def play() -> None:
        contract = changed("postfleet", outcomes__provider_refused=policy)
        async with emulator(contract, Scripted(script=["refused"])) as (engine, upstream):
            assert kind(await ask(engine, request_for("postfleet"))) is AnswerClass.REFUSED
            assert str(kind(await ask(engine, request_for("postfleet")))) == last
            assert len(upstream.keys) == calls

    run(play())


@pytest.mark.parametrize("name", INLINE)
def test_a_busy_provider_frees_the_key(name: str) -> None:
    async def play() -> None:
        async with emulator(name, Scripted(script=["busy", "busy"])) as (engine, upstream):
            for _ in range(2):
                assert kind(await ask(engine, request_for(name))) is AnswerClass.FAILED
            assert kind(await ask(engine, request_for(name))) is AnswerClass.ACCEPTED
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize("name", ["rasket", "pylota"])
def test_a_queue_tries_a_busy_provider_again(name: str) -> None:
    async def play() -> None:
        async with emulator(name, Scripted(script=["busy", "busy"])) as (engine, upstream):
            assert kind(await ask(engine, request_for(name))) is AnswerClass.ACCEPTED
            await engine.settled()
            assert (len(upstream.taken), len(upstream.keys), len(set(upstream.keys))) == (1, 3, 1)

    run(play())


@pytest.mark.parametrize("script", ["unknown", "lost"])
def test_an_unknown_outcome_is_told_kept_and_never_sent_again(script: str) -> None:
    async def play() -> None:
        async with emulator("postfleet", Scripted(script=[script])) as (engine, upstream):
            first = await ask(engine, request_for("postfleet"))
            assert (first.status, said(first)["code"]) == (502, "delivery_outcome_unknown")
            for _ in range(3):
                again = await ask(engine, request_for("postfleet"))
                assert (again.status, said(again)["code"]) == (409, "idempotency_in_progress")
            assert kind(await ask(engine, request_for("postfleet", text="other"))) is AnswerClass.CONFLICT
            await engine.settled()
            assert len(upstream.keys) == 1

    run(play())


@pytest.mark.parametrize("name", ["rasket", "pylota"])
def test_a_queue_never_sends_an_unknown_outcome_again(name: str) -> None:
    async def play() -> None:
        async with emulator(name, Scripted(script=["lost"])) as (engine, upstream):
            first = await ask(engine, request_for(name))
            await engine.settled()
            again = await ask(engine, request_for(name))
            assert said(first)["id"] == said(again)["id"]
            assert len(upstream.keys) == 1

    run(play())


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("script", ["unknown", "lost"])
def test_an_unknown_outcome_is_resolved_by_a_provider_that_deduplicates(name: str, script: str) -> None:
    async def play() -> None:
        upstream = Scripted(deduplicates=True, script=[script, script])
        async with emulator(name, upstream) as (engine, _):
            await ask(engine, request_for(name))
            await engine.settled()
            again = await ask(engine, request_for(name))
            assert kind(again) is AnswerClass.REPLAYED
            assert (len(upstream.taken), len(set(upstream.keys))) == (1, 1)

    run(play())


@pytest.mark.parametrize("then", ["busy", "refused"])
def test_after_an_unknown_outcome_no_later_answer_makes_the_key_free(then: str) -> None:
    """What a provider says to a repetition says nothing of the first hand-over."""

    async def play() -> None:
        upstream = Scripted(deduplicates=True, script=["unknown", *[then] * 100])
        async with emulator("postfleet", upstream, retries_for=0.1) as (engine, _):
            assert kind(await ask(engine, request_for("postfleet"))) is AnswerClass.UNKNOWN
            await engine.settled()
            assert kind(await ask(engine, request_for("postfleet"))) is AnswerClass.IN_PROGRESS
            assert len(upstream.taken) == 1

    run(play())


def test_a_caller_that_hangs_up_stops_nothing() -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator("postfleet", upstream) as (engine, _):
            caller = asyncio.create_task(ask(engine, request_for("postfleet")))
            await upstream.reached.wait()
            caller.cancel()
            await asyncio.wait({caller})
            assert kind(await ask(engine, request_for("postfleet"))) is AnswerClass.IN_PROGRESS
            assert upstream.gate is not None
            upstream.gate.set()
            await engine.settled()
            assert kind(await ask(engine, request_for("postfleet"))) is AnswerClass.REPLAYED
            assert len(upstream.taken) == 1

    run(play())


@pytest.mark.parametrize(
    ("name", "seconds", "deliveries"),
    [
        ("rasket", 86_400, 1),
        ("rasket", 90_001, 2),
        ("resend", 86_399, 1),
        ("resend", 86_401, 2),
        ("pylota", 2_591_999, 1),
        ("pylota", 2_592_001, 2),
        ("postfleet", 10_000_000, 1),
    ],
)
def test_a_key_is_forgotten_after_its_retention_and_not_before(name: str, seconds: float, deliveries: int) -> None:
    async def play() -> None:
        clock = Clock()
        async with emulator(name, clock=clock) as (engine, upstream):
            await ask(engine, request_for(name))
            await engine.settled()
            clock.advance(seconds)
            await ask(engine, request_for(name))
            await engine.settled()
            assert len(upstream.taken) == deliveries

    run(play())


def test_a_send_that_still_runs_is_not_forgotten() -> None:
    async def play() -> None:
        clock = Clock()
        upstream = Scripted(gate=asyncio.Event())
        async with emulator("resend", upstream, clock=clock) as (engine, _):
            first = asyncio.create_task(ask(engine, request_for("resend")))
            await upstream.reached.wait()
            clock.advance(1e6)
            assert kind(await ask(engine, request_for("resend"))) is AnswerClass.IN_PROGRESS
            assert upstream.gate is not None
            upstream.gate.set()
            await first
            assert len(upstream.taken) == 1

    run(play())


def test_a_batch_is_one_operation_with_an_id_for_each_mail() -> None:
    async def play() -> None:
        raw = json.dumps([body_for("rasket", to=f"{n}@example.test") for n in range(3)]).encode()
        async with emulator("rasket") as (engine, upstream):
            first = await ask(engine, request_for("rasket", path="/emails/batch", raw=raw))
            await engine.settled()
            again = await ask(engine, request_for("rasket", path="/emails/batch", raw=raw))
            assert said(first)["data"] == said(again)["data"]
            assert len(said(first)["data"]) == len(upstream.taken) == 3

    run(play())


def test_a_batch_of_which_a_part_was_busy_sends_each_mail_once() -> None:
    async def play() -> None:
        raw = json.dumps([body_for("resend", to=f"{n}@example.test") for n in range(3)]).encode()
        async with emulator("resend", Scripted(script=["sent", "busy"])) as (engine, upstream):
            first = await ask(engine, request_for("resend", path="/emails/batch", raw=raw))
            assert kind(first) is AnswerClass.ACCEPTED
            await engine.settled()
            await ask(engine, request_for("resend", path="/emails/batch", raw=raw))
            assert sorted(mail.recipients[0][0] for mail in upstream.taken) == ["0", "1", "2"]

    run(play())


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/nope", "POST", 404), ("/emails", "GET", 405), ("/v2/emails", "POST", 200), ("/emails/", "POST", 200)],
)
def test_a_path_may_have_a_prefix_and_must_be_known(path: str, method: str, status: int) -> None:
    async def play() -> None:
        async with emulator("resend") as (engine, _):
            request = request_for("resend", path=path)
            asked = type(request)(method, path, request.headers, request.body)
            assert (await ask(engine, asked)).status == status

    run(play())


def test_a_vendor_that_asks_for_a_user_agent_gets_one() -> None:
    async def play() -> None:
        for name, status in (("rasket", 403), ("resend", 200)):
            async with emulator(name) as (engine, _):
                assert (await ask(engine, request_for(name, headers={"user-agent": ""}))).status == status

    run(play())


def test_a_store_that_fails_refuses_before_any_effect() -> None:
    async def play() -> None:
        async with emulator("resend") as (engine, upstream):
            engine.store._db.execute("DROP TABLE entry")
            assert kind(await ask(engine, request_for("resend"))) is AnswerClass.FAILED
            assert not upstream.taken

    run(play())


def test_a_store_that_fails_after_the_hand_over_says_unknown() -> None:
    async def play() -> None:
        upstream = Scripted(gate=asyncio.Event())
        async with emulator("resend", upstream) as (engine, _):
            first = asyncio.create_task(ask(engine, request_for("resend")))
            await upstream.reached.wait()
            engine.store._db.execute("DROP TABLE entry")
            assert upstream.gate is not None
            upstream.gate.set()
            assert kind(await first) is AnswerClass.UNKNOWN

    run(play())


@pytest.mark.parametrize("name", contracts.names())
def test_every_shipped_contract_is_played(name: str) -> None:
    """The same mail three times under one key: sent each time where there are no keys, else refused or replayed."""

    async def play() -> None:
        contract = contracts.load(name)
        keyed = contract.key.presence.played("none") != "none"
        async with provider(contract) as fake:
            upstream = HttpUpstream(fake.url, contract)
            mail = Mail("shop@example.test", ("ana@example.test",), "Receipt", "Thanks")
            key = str(uuid.uuid4())
            outcomes = [await upstream.send(mail, key) for _ in range(3)]
            await fake.emulator.settled()
            await upstream.stop()
            again = Kind.UNKNOWN if contract.duplicates.played("replay") in ("refuse", "redirect") else Kind.SENT
            assert [outcome.kind for outcome in outcomes] == [Kind.SENT, again, again]
            assert fake.ledger.commits == (1 if keyed else 3)

    run(play())
