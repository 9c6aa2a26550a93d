"""Scenario files: the short forms, the long forms, and one line with its number for each mistake."""

from typing import Any

import pytest

from sendtwice.fake_provider.contracts import AnswerClass, Level
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.scenario import Scenario, catalogue, parse
from sendtwice.harness.sends import Burst, Key, Send
from sendtwice.harness.steps import HoldStep, ParallelStep, SendStep, UntilStep

HEAD = "id: t.x\ntitle: A test\nrole: api\nsteps:\n"


def steps(*lines: str, tail: str = "") -> Scenario:
    return parse(HEAD + "".join(f"  - {line}\n" for line in lines) + tail)


def send(line: str) -> Send:
    (step,) = steps(f"send: {line}").steps
    assert isinstance(step, SendStep)
    return step.send


def mistake(*lines: str, tail: str = "", head: str = HEAD) -> str:
    with pytest.raises(BadFileError) as caught:
        parse(head + "".join(f"  - {line}\n" for line in lines) + tail, "x.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_plain_send_waits_for_its_answer() -> None:
    plain = send("{as: first}")
    assert (plain.name, plain.wait, plain.at, plain.key) == ("first", "answer", [], None)


@pytest.mark.parametrize(
    ("given", "verb", "argument"),
    [
        ("{client.response: lose}", Verb.LOSE, None),
        ("{client.response: {lose: in-body}}", Verb.LOSE, "in-body"),
        ("{client.response: {cut: 20}}", Verb.CUT, 20),
        ("{client.request: twice}", Verb.TWICE, None),
        ("{provider.request: {answer: 503, times: 3}}", Verb.ANSWER, 503),
        ("{provider.request: {answer: conflict}}", Verb.ANSWER, "conflict"),
        ("{provider.response: {delay: 0.5}}", Verb.DELAY, 0.5),
        ("{provider.response: {hold: gate}}", Verb.HOLD, "gate"),
        ("{crossing: provider.response, close: null, of: o, nth: 2}", Verb.CLOSE, None),
        ("[{crossing: provider.request, reset: null, stage: connect}]", Verb.RESET, None),
    ],
)
def test_a_fault_may_be_written_short_or_long(given: str, verb: Verb, argument: Any) -> None:
    (fault,) = send(f"{{as: first, at: {given}}}").at
    assert (fault.verb, fault.argument) == (verb, argument)


def test_several_faults_stand_at_one_attempt() -> None:
    faults = send("{as: first, at: {provider.request: hold, client.response: lose}}").at
    assert {f.crossing for f in faults} == {Place.PROVIDER_REQUEST, Place.CLIENT_RESPONSE}


def test_provider_crossings_belong_to_an_operation_and_client_crossings_to_an_attempt() -> None:
    faults = send("{as: first, at: {provider.request: hold, client.response: lose}}").at
    armed = {f.crossing: f.fault(operation="o", attempt="a") for f in faults}
    assert (armed[Place.PROVIDER_REQUEST].operation, armed[Place.PROVIDER_REQUEST].attempt) == ("o", None)
    assert (armed[Place.CLIENT_RESPONSE].operation, armed[Place.CLIENT_RESPONSE].attempt) == (None, "a")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{provider.response: twice}", "provider.response cannot be hit by 'twice'; it knows: "),
        ("{provider.request: {cut: 3}}", "cannot be hit by 'cut'"),
        ("{client.response: {cut: -1}}", "cut takes a number of bytes, not -1"),
        ("{client.response: {delay: soon}}", "delay takes seconds, not 'soon'"),
        ("{client.response: {lose: later}}", "lose takes before-answer, first-byte, in-body or in-chunks"),
        ("{provider.response: {lose: in-body}}", "lose takes"),
        ("{provider.request: {answer: teapot}}", "answer takes a status, or an answer class"),
        ("{client.response: {lose: null, hold: x}}", "needs exactly one verb"),
        ("{client.response: {times: 2}}", "needs exactly one verb"),
        ("{client.response: explode}", "needs exactly one verb"),
        ("{client.response: 3}", "is no fault; write a verb"),
        ("{client.respnse: lose}", "crossing"),
        ("{crossing: client.response, lose: null, stage: connect}", "a stage belongs to client.request or provider"),
        ("{crossing: client.request, twice: null, stage: headers}", "at stage headers the message is not complete"),
        ("{crossing: client.request, garble: html, stage: headers}", "at stage headers the message is not complete"),
        ("{crossing: provider.request, answer: conflict, stage: connect}", "or answered with a bare status"),
        ("{crossing: client.request, answer: 503, retry_after: 1, stage: headers}", "or answered with a bare status"),
        ("{crossing: webhook.response, lose: in-chunks}", "lose takes before-answer, first-byte, in-body or in-chunks"),
        ("{crossing: provider.request, lose: null, stage: mail}", "stage 'mail' is unknown at provider.request; known"),
        ("{client.response: {lose: null, nth: 0}}", "nth"),
        ("[lose]", "a fault in its long form names its crossing"),
        ("lose", "at is a mapping from crossings to faults"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_with_its_line(given: str, message: str) -> None:
    found = mistake("send: {as: zero}", f"send: {{as: first, at: {given}}}")
    assert found.startswith("x.yaml:6: steps.1.send.")
    assert message in found


def test_a_key_may_be_a_name_none_or_described() -> None:
    assert send("{as: a, key: k}").key == "k"
    assert send("{as: a, key: none}").key == "none"
    assert send("{as: a, key: {of: k, size: max, tail: x}}").key == Key(of="k", size="max", tail="x")
    assert send("{as: a, key: {absent: true}}").key == Key(absent=True)
    assert send("{as: a, key: {of: k, size: 12}}").key == Key(of="k", size=12)


def test_bare_words_are_steps() -> None:
    kinds = [type(s).__name__ for s in steps("send: {as: a}", "settle", "crash", "restart").steps]
    assert kinds == ["SendStep", "SettleStep", "CrashStep", "RestartStep"]


def test_parallel_is_a_list_or_a_number_of_copies() -> None:
    scenario = steps("parallel: {as: copy, count: 20}", "finish: copy.20", "parallel: [{as: x}, {as: y, like: x}]")
    burst, _, both = scenario.steps
    assert isinstance(burst, ParallelStep)
    assert isinstance(burst.parallel, Burst)
    assert burst.parallel.count == 20
    assert isinstance(both, ParallelStep)
    assert isinstance(both.parallel, list)
    assert [item.name for item in both.parallel] == ["x", "y"]


def test_a_hold_is_understood_without_its_verb() -> None:
    first, second = steps(
        "hold: {crossing: provider.response, of: o, label: gate}", "hold: {crossing: provider.request, answer: 503}"
    ).steps
    assert isinstance(first, HoldStep)
    assert isinstance(second, HoldStep)
    assert (first.hold.verb, first.hold.hold_label) == (Verb.HOLD, "gate")
    assert second.hold.verb is Verb.ANSWER


@pytest.mark.parametrize(
    ("until", "names"), [("{answered: a}", ["a"]), ("{answered: [a, b], or_after: grace}", ["a", "b"])]
)
def test_until_waits_for_one_or_several(until: str, names: list[str]) -> None:
    step = steps("send: {as: a}", "send: {as: b}", f"until: {until}").steps[-1]
    assert isinstance(step, UntilStep)
    assert step.until.names == names


@pytest.mark.parametrize("until", ["{}", "{answered: a, delivered: a}", "{or_after: grace}"])
def test_until_waits_for_exactly_one_thing(until: str) -> None:
    assert "until waits for one of" in mistake("send: {as: a}", f"until: {until}")


def test_expectations_count_mails_and_classes() -> None:
    answers = "{a: accepted, [a, b]: {accepted: 1, rest: replayed}}"
    tail = f"expect:\n  deliveries: {{a: 1, [a, b]: [1, 2]}}\n  answers: {answers}\n"
    expect = steps("send: {as: a}", "send: {as: b}", tail=tail).expect
    assert expect.deliveries == {"a": 1, ("a", "b"): (1, 2)}
    assert expect.answers["a"] == [AnswerClass.ACCEPTED]
    assert expect.answers["a", "b"] == {AnswerClass.ACCEPTED: 1, "rest": [AnswerClass.REPLAYED]}
    assert expect.level is Level.MUST
    assert not expect.empty


def test_a_scenario_that_expects_nothing_of_its_own_says_so() -> None:
    assert steps("send: {as: a}").expect.empty


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("expect: {deliveries: {b: 1}}\n", "'b' is no operation of this scenario; known: a"),
        ("expect: {answers: {b: accepted}}\n", "'b' is no attempt of this scenario; known: a"),
        ("expect: {answers: {a: fine}}\n", "'fine' is not a valid AnswerClass"),
        ("expect: {answers: {a: {accepted: 1}}}\n", "counts of answers are for a group of attempts"),
        ("expect: {answers: {[a, a]: {accepted: many}}}\n", "a whole number"),
        ("expect: {deliveries: 1}\n", "deliveries is a mapping from operations to numbers"),
        ("expect: {delivery: {a: 1}}\n", "unknown key; did you mean 'deliveries'?"),
        ("expect: {told: {a: maybe}}\n", "expect.told.a"),
    ],
)
def test_an_expectation_that_cannot_be_is_refused(tail: str, message: str) -> None:
    assert message in mistake("send: {as: a}", tail=tail)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("send: {as: b, like: c}", "x.yaml:6: steps.1.send.like: 'c' is no attempt of an earlier step; known here: a"),
        ("await: c", "'c' is no attempt or label of an earlier step"),
        ("release: c", "'c' is no label of an earlier step; known here: none so far"),
        ("hang_up: c", "'c' is no attempt"),
        ("finish: c", "'c' is no attempt"),
        ("until: {answered: c}", "steps.1.until.answered: 'c' is no attempt"),
        ("until: {met: c}", "'c' is no label"),
        ("until: {delivered: c}", "'c' is no operation"),
        ("parallel: [{as: b, like: c}]", "steps.1.parallel.0.like: 'c' is no attempt"),
        ("sned: {as: b}", "is no step; a step is a mapping with one of: send"),
        ("{send: {as: b}, settle: null}", "is no step"),
        ("send: {as: b, lke: a}", "steps.1.send.lke: unknown key; did you mean 'like'?"),
        ("send: {op: b}", "steps.1.send.as: is missing; add it"),
        ("send: {as: b, recipients: 0}", "steps.1.send.recipients"),
        ("send: {as: b, change: {to: nobody}}", "steps.1.send.change.to"),
        ("parallel: {as: b, count: 1}", "steps.1.parallel"),
        ("hold: {hold: x}", "hold names its crossing"),
    ],
)
def test_a_step_that_cannot_be_is_refused(line: str, message: str) -> None:
    assert message in mistake("send: {as: a}", line)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (HEAD.replace("t.x", "T X"), "id"),
        (HEAD.replace("role: api", "role: server"), "x.yaml:3: role"),
        (HEAD.replace("title", "titel"), "x.yaml:2: titel: unknown key; did you mean 'title'?"),
        (HEAD.replace("role: api\n", ""), "role: is missing; add it"),
        ("id: t.x\nid: t.y\n" + HEAD, "'id' is given twice; keep one"),
    ],
)
def test_a_head_that_cannot_be_is_refused(head: str, message: str) -> None:
    assert message in mistake("send: {as: a}", head=head)


@pytest.mark.parametrize("text", ["", "[]", "id: [", "just words", "id: t.x\ntitle: x\nrole: api\nsteps: []\n"])
def test_a_text_that_is_no_scenario_is_refused(text: str) -> None:
    with pytest.raises(BadFileError):
        parse(text)


def test_a_label_is_known_by_its_own_name_its_attempts_or_its_operations() -> None:
    scenario = steps(
        "send: {as: a, at: {provider.request: hold}}",
        "release: a",
        "send: {as: b, at: {provider.request: {hold: gate}}}",
        "release: gate",
        "hold: {crossing: provider.response, of: o}",
        "release: o",
        "hold: {crossing: provider.response}",
        "release: provider.response",
    )
    assert len(scenario.steps) == 8


def test_every_shipped_scenario_is_read_the_same_from_its_own_words() -> None:
    for scenario in catalogue():
        again = Scenario.model_validate(scenario.model_dump(by_alias=True, exclude_unset=True))
        assert again == scenario
        assert scenario.family == scenario.id.split(".")[0]
