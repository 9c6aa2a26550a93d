"""Role consumer on the wire: which ids and bytes an event has, when it comes again, and what lies on its way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider import contracts, webhooks
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.canary import complaint
from sendtwice.harness.history import Event, Kind
from sendtwice.harness.needs import missing
from sendtwice.harness.scenario import catalogue, parse
from sendtwice.harness.sends import Notify, Operate, Redeliver, Send
from sendtwice.harness.steps import ParallelStep
from sendtwice.harness.target import TargetBody, load
from tests.harness.consumers import Consumer, Got, answered, ignored, play

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def ids(got: Got) -> tuple[str, str, str]:
    return got.headers["webhook-id"], got.data["data"]["message_id"], got.data["data"]["operation"]


# -- who is who -------------------------------------------------------------------------------------------------------


def test_a_redelivery_has_the_same_id_and_bytes_and_is_signed_anew(tmp_path: Path) -> None:
    seen = play(tmp_path, "[{notify: {as: first}}, {redeliver: {as: again, like: first}}]", ignored, secret=SECRET)
    first, again = seen.got
    assert first.body == again.body
    assert first.headers["webhook-id"] == again.headers["webhook-id"] == first.data["event_id"]
    stamp = float(again.headers["webhook-timestamp"])
    for one in seen.got:
        webhooks.verify(SECRET, one.headers, one.body, now=stamp, tolerance=2)


def test_another_event_of_one_message_differs_in_the_id_of_the_event_alone(tmp_path: Path) -> None:
    seen = play(tmp_path, "[{notify: {as: first}}, {notify: {as: again, like: first, event: new}}]", ignored)
    (event, message, operation), (other_event, same_message, same_operation) = map(ids, seen.got)
    assert event != other_event
    assert (message, operation) == (same_message, same_operation)
    assert seen.got[0].data["data"] == seen.got[1].data["data"]


def test_two_messages_of_equal_content_differ_in_every_id(tmp_path: Path) -> None:
    seen = play(tmp_path, "[{notify: {as: m1}}, {notify: {as: m2, op: m2, like: m1}}]", ignored)
    one, two = (got.data["data"] for got in seen.got)
    assert (one["from"], one["subject"], one["text"]) == (two["from"], two["subject"], two["text"])
    assert not set(ids(seen.got[0])) & set(ids(seen.got[1]))


def test_events_of_one_alias_have_one_id_which_no_other_run_has(tmp_path: Path) -> None:
    steps = "[{notify: {as: a, event: e1}}, {notify: {as: b, event: e1}}]"
    runs = [play(tmp_path, steps, ignored) for _ in range(2)]
    (first, second), (third, fourth) = ([got.headers["webhook-id"] for got in run.got] for run in runs)
    assert first == second
    assert third == fourth != first


def test_what_is_delivered_is_told_with_the_id_that_the_send_api_answered(tmp_path: Path) -> None:
    async def answers(consumer: Consumer, got: Got) -> int:
        if got.data["type"] == "message.received":
            await consumer.send(got)
        return 200

    steps = """[{notify: {as: first, at: {provider.response: hold}}},
                {notify: {as: told, about: first, type: delivered}},
                {release: first}, {await: first},
                {notify: {as: late, about: first, type: bounced}}]"""
    seen = play(tmp_path, steps, answers)
    told, late = seen.got[1].data, seen.got[2].data
    assert (told["type"], late["type"]) == ("email.delivered", "email.bounced")
    assert told["data"]["mail_id"] == late["data"]["mail_id"] == seen.consumer.mails[0]["id"], "before it was answered"
    assert told["event_id"] != late["event_id"] != seen.got[0].data["event_id"]
    assert seen.rules() == set()


def test_a_payload_of_ones_own_is_filled_and_signed_as_the_target_file_says(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"ref": "{message_id}", "who": "{from}", "what": "{subject} {text}"}')
    settings = {"event": "mine.json", "signature": "stripe", "secret": "s3cret"}
    seen = play(tmp_path, "[{notify: {as: first}}]", ignored, **settings)
    assert seen.got[0].data["ref"].startswith("msg_")
    assert seen.got[0].headers["stripe-signature"].startswith("t=")


@pytest.mark.parametrize(
    ("flaw", "why"),
    [
        ("bad", "no signature is right"),
        ("other-secret", "no signature is right"),
        ("tampered", "no signature is right"),
        ("stale", "seconds away"),
        ("absent", "webhook-id is missing"),
    ],
)
def test_a_signature_is_wrong_as_the_scenario_says_and_the_next_one_is_right(
    tmp_path: Path, flaw: str, why: str
) -> None:
    steps = f"[{{notify: {{as: first, signature: {flaw}}}}}, {{redeliver: {{as: again, like: first}}}}]"
    forged, real = play(tmp_path, steps, ignored, secret=SECRET).got
    now = float(real.headers["webhook-timestamp"])
    with pytest.raises(webhooks.BadSignatureError, match=why):
        webhooks.verify(SECRET, forged.headers, forged.body, now=now)
    webhooks.verify(SECRET, real.headers, real.body, now=now)
    assert forged.body == real.body


# -- at once, and again -----------------------------------------------------------------------------------------------


def test_a_crowd_of_one_event_leaves_at_the_same_instant(tmp_path: Path) -> None:
    seen = play(tmp_path, "[{parallel: {as: copy, count: 5}}]", ignored)
    assert len(seen.got) == 5
    assert len({got.headers["webhook-id"] for got in seen.got}) == 1
    assert len({got.body for got in seen.got}) == 1


def test_the_schedule_ends_with_the_first_acknowledgement(tmp_path: Path) -> None:
    async def third_time(consumer: Consumer, got: Got) -> int:
        if len(consumer.got) < 3:
            return 503
        await consumer.send(got)
        return 204

    seen = play(tmp_path, "[{notify: {as: first}}, {finish: first}]", third_time, schedule=[0, 0, 0, 0, 0])
    assert len(seen.got) == 3
    finished = next(event for event in seen.events if event.kind is Kind.FINISHED)
    assert (finished.data["definite"], finished.data["last"]) == (True, "first~2")
    assert seen.rules() == set()


@pytest.mark.parametrize(("status", "deliveries"), [(500, 4), (302, 4), (410, 1)])
def test_an_event_that_nobody_takes_is_dead_at_the_end_of_the_schedule(
    tmp_path: Path, status: int, deliveries: int
) -> None:
    async def never(consumer: Consumer, got: Got) -> int:
        return status

    seen = play(tmp_path, "[{notify: {as: first}}, {finish: first}]", never, schedule=[0, 0, 0])
    assert len(seen.got) == deliveries
    assert not next(event for event in seen.events if event.kind is Kind.FINISHED).data["definite"]


def test_the_schedule_waits_as_long_as_the_consumer_asks(tmp_path: Path) -> None:
    async def later(consumer: Consumer, got: Got) -> int | tuple[int, dict[str, str]]:
        return 200 if len(consumer.got) > 1 else (429, {"Retry-After": "0.3"})

    seen = play(tmp_path, "[{notify: {as: first}}, {finish: first}]", later, schedule=[0])
    assert next(event for event in seen.events if event.kind is Kind.FINISHED).data["waited"] >= 0.3


# -- the way ----------------------------------------------------------------------------------------------------------


def test_an_ack_that_a_gateway_replaces_is_none_and_the_event_comes_again(tmp_path: Path) -> None:
    steps = "[{notify: {as: first, at: {webhook.response: {answer: 502}}}}, {finish: first}]"
    seen = play(tmp_path, steps, answered, schedule=[0])
    assert len(seen.got) == 2
    ended = next(event for event in seen.events if event.kind is Kind.ENDED)
    assert (ended.data["outcome"], "502" in ended.data["detail"]) == ("lost", True)
    assert seen.rules() == {("at-most-once", "must")}


@pytest.mark.parametrize(
    ("fault", "arrived"),
    [
        ("{webhook.request: lose}", 0),
        ("{webhook.request: reset}", 0),
        ("{webhook.request: {cut: 100}}", 0),
        ("{webhook.request: twice}", 2),
        ("{webhook.request: {delay: 0.05}}", 1),
        ("{webhook.response: {lose: first-byte}}", 1),
        ("{webhook.response: {delay: 0.05}}", 1),
    ],
)
def test_an_event_meets_what_lies_on_its_wire(tmp_path: Path, fault: str, arrived: int) -> None:
    seen = play(tmp_path, f"[{{notify: {{as: first, at: {fault}}}}}]", ignored)
    assert len(seen.got) == arrived
    assert any(event.kind is Kind.FIRED for event in seen.events)


def test_the_sender_is_gone_when_the_mail_is_out_and_its_answer_is_held(tmp_path: Path) -> None:
    seen = play(tmp_path, "[{notify: {as: first, at: {webhook.response: lose}}}]", answered)
    kinds = [event.kind for event in seen.events]
    assert kinds.index(Kind.DELIVERY) < kinds.index(Kind.ENDED) < kinds.index(Kind.PROVIDER_RESPONSE)
    assert seen.rules() == set()


# -- the language -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "items", "kinds"),
    [
        ("api", "[{as: a}, {as: b, like: a}]", [Send, Send]),
        ("client", "[{as: a}, {operate: {as: b, like: a}}]", [Operate, Operate]),
        ("consumer", "[{as: a}, {redeliver: {as: b, like: a}}, {notify: {as: c}}]", [Notify, Redeliver, Notify]),
    ],
)
def test_what_leaves_at_once_is_of_the_role_or_says_what_it_is(role: str, items: str, kinds: list[type]) -> None:
    scenario = parse(f"{{id: x, title: t, role: {role}, steps: [{{parallel: {items}}}]}}")
    step = scenario.steps[0]
    assert isinstance(step, ParallelStep)
    assert isinstance(step.parallel, list)
    assert [type(item) for item in step.parallel] == kinds
    again = parse(json.dumps(json.loads(scenario.model_dump_json(by_alias=True, exclude_unset=True))))
    assert [item.name for item in again.steps[0].parallel] == [item.name for item in step.parallel]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("{notify: {as: b, about: a}}", "about and type belong together"),
        ("{notify: {as: b, about: a, type: delivered, op: a}}", "leave op, like and content out"),
        ("{notify: {as: b, about: nobody, type: delivered}}", "'nobody' is no operation of an earlier step"),
        ("{notify: {as: b, signature: wrong}}", "signature"),
        ("{notify: {as: b, at: {webhook.response: {answer: conflict}}}}", "answer takes"),
        ("{parallel: [{as: b, lik: a}]}", "lik"),
    ],
)
def test_a_slip_in_an_event_is_told(step: str, why: str) -> None:
    with pytest.raises(BadFileError, match=why):
        parse(f"{{id: x, title: t, role: consumer, steps: [{{notify: {{as: a}}}}, {step}]}}")


# -- the target file --------------------------------------------------------------------------------------------------


def lacking(scenario: str, **settings: Any) -> list[str]:
    target = TargetBody.model_validate({"role": "consumer", "consumer": {"url": "http://127.0.0.1:1", **settings}})
    found = next(s for s in catalogue() if s.id == scenario)
    return missing(found, target, universal())


def universal() -> Contract:
    return contracts.load("universal")


def test_what_a_target_cannot_be_told_is_a_skip_with_the_setting_that_would_enable_it() -> None:
    assert lacking("webhook.stale-signature", signature="stripe") == []
    assert "no signed time (hmac)" in lacking("webhook.stale-signature", signature="hmac")[0]
    assert "are not signed" in lacking("webhook.bad-signature", signature="none")[0]
    assert lacking("webhook.bounced", event="mine.json") == [
        "what its provider tells of a mail is not known: target.consumer.bounced"
    ]
    assert "no instance number 2" in lacking("webhook.two-workers")[0]


def write(tmp_path: Path, consumer: str, payload: str = '{"who": "{from}", "what": "{text}"}') -> str:
    (tmp_path / "mine.json").write_text(payload)
    file = tmp_path / "sendtwice.toml"
    file.write_text(
        f'[target]\nrole = "consumer"\n[target.consumer]\nurl = "http://127.0.0.1:1"\n{consumer}\n', "utf-8"
    )
    return str(file)


@pytest.mark.parametrize(
    ("consumer", "why"),
    [
        ('signature = "svix"\nsecret = "abc!"', "whsec_ followed by base64"),
        ('signature = "stripe"\nprefix = "x"', "prefix is for signature hmac"),
        ('signature = "hmac"\nheader = "A B"', "'A B' is no header name"),
        ('event = "message.recieved"', "target.consumer.event: .*did you mean 'message.received'"),
        ('event = "gone.json"', "gone.json"),
        ('event = "mine.json"\ndelivered = "gone.json"', "gone.json"),
        ("schedule = [-1]", "target.consumer.schedule"),
    ],
)
def test_a_slip_in_the_target_file_is_told_before_anything_starts(tmp_path: Path, consumer: str, why: str) -> None:
    with pytest.raises(BadFileError, match=why):
        load(write(tmp_path, consumer))


def test_an_event_without_its_sender_is_refused_for_no_mail_could_be_known_by_it(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"target\.consumer\.event: mine\.json has no \{from\}"):
        load(write(tmp_path, 'event = "mine.json"', '{"what": "{text}"}'))


def test_an_event_that_does_not_name_its_message_skips_what_only_that_can_tell(tmp_path: Path) -> None:
    target, _ = load(write(tmp_path, 'event = "mine.json"'))
    found = next(s for s in catalogue() if s.id == "webhook.new-id-same-message")
    assert "do not say which message they are about" in missing(found, target.target, universal())[0]


# -- nobody there -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (
            {"outcome": "unreachable", "detail": "refused"},
            ["found no consumer: nothing listens there (refused)", "start it, or mend target.consumer.url"],
        ),
        ({"outcome": "answered", "status": 404}, ["was refused with 404", "see the path in target.consumer.url"]),
        (
            {"outcome": "answered", "status": 401, "body": "no"},
            ["refused with 401: no", "see target.consumer.signature and secret"],
        ),
        ({"outcome": "answered", "status": 500}, ["see the target's output"]),
        ({"outcome": "answered", "status": 200}, ["may be using a real provider"]),
    ],
)
def test_a_consumer_that_takes_no_plain_event_gets_one_clear_message(ended: dict[str, object], says: list[str]) -> None:
    found = complaint([Event(1, 0.0, Kind.ENDED, "canary", "mail", "mail", None, dict(ended))], [], "consumer")
    assert found is not None
    assert all(part in found for part in says), found
