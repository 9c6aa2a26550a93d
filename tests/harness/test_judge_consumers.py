"""What the judge says of consumers: whom they believed, what an acknowledgement promises, and what it does not."""

import pytest

from sendtwice.fake_provider.contracts import Level
from tests.harness.histories import History

FLAWS = pytest.mark.parametrize("flaw", ["bad", "stale", "absent", "other-secret", "tampered"])


def consumer() -> History:
    return History.under("universal", role="consumer")


# -- whom it believed -------------------------------------------------------------------------------------------------


@FLAWS
def test_a_mail_for_an_event_that_was_not_to_be_believed_is_found(flaw: str) -> None:
    h = consumer()
    h.send("forged", signature=flaw)
    h.deliver("forged")
    h.reply("forged", 200, {})
    assert h.rules() == {"unverified"}
    found = h.judgement.findings[0]
    assert found.message.startswith("forged ")
    assert found.message.endswith("and a mail was sent for it")
    assert "raw body" in found.remedy


@FLAWS
def test_its_acknowledgement_alone_is_a_shortcoming_and_promises_nothing(flaw: str) -> None:
    h = consumer()
    h.send("forged", signature=flaw)
    h.reply("forged", 202, {})
    h.settle()
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == {"unverified"}


@FLAWS
def test_a_refusal_is_right_whatever_its_status(flaw: str) -> None:
    h = consumer()
    h.send("forged", signature=flaw)
    h.reply("forged", 400, {})
    assert h.judgement.findings == ()


def test_a_forged_event_that_never_arrived_whole_is_nobodys_fault() -> None:
    h = consumer()
    h.send("forged", signature="bad")
    h.ends("forged", never_arrived=True)
    h.send("real", like="forged")
    h.deliver("forged")
    h.reply("real", 200, {})
    assert h.judgement.findings == ()


def test_the_true_event_after_a_forged_one_is_dealt_with_once() -> None:
    h = consumer()
    h.send("forged", signature="bad")
    h.reply("forged", 401, {})
    h.send("real", like="forged")
    h.deliver("forged")
    h.reply("real", 200, {})
    assert h.judgement.findings == ()


def test_who_sent_for_the_forged_one_is_found_though_the_true_one_came_later() -> None:
    h = consumer()
    h.send("forged", signature="bad")
    h.deliver("forged")
    h.reply("forged", 200, {})
    h.send("real", like="forged")
    h.reply("real", 200, {})
    assert h.rules() == {"unverified"}


def test_a_mail_after_the_true_event_came_is_not_held_against_the_forged_one() -> None:
    h = consumer()
    h.send("forged", signature="bad")
    h.reply("forged", 401, {})
    h.send("real", like="forged")
    h.reply("real", 200, {})
    h.deliver("forged")
    assert h.judgement.findings == ()


def test_a_forged_event_that_switches_off_the_true_one_lost_it() -> None:
    h = consumer()
    h.send("forged", signature="bad")
    h.reply("forged", 401, {})
    h.send("real", like="forged")
    h.reply("real", 200, {})
    h.settle()
    assert h.rules() == {"no-lost-send"}


def test_of_two_messages_with_one_body_the_forged_one_is_for_nobody() -> None:
    h = consumer()
    h.send("m1", signature="bad")
    h.reply("m1", 401, {})
    h.send("m2", op="m2", like="m1", group="m1")
    h.deliver("m2")
    h.reply("m2", 200, {})
    assert h.judgement.findings == ()
    h.deliver("m2")
    assert h.rules() == {"at-most-once"}


def test_a_mail_whose_operation_cannot_be_told_accuses_nobody() -> None:
    h = consumer()
    h.send("forged", signature="bad")
    h.deliver("forged", ambiguous=True)
    h.reply("forged", 401, {})
    assert h.accusations == []


# -- what an acknowledgement promises ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "timed-out", "broken"])
def test_an_ack_that_was_lost_promises_nothing(how: str) -> None:
    h = consumer()
    h.send("first")
    h.ends("first", how)
    h.settle()
    assert h.judgement.findings == ()


@pytest.mark.parametrize("status", [301, 400, 409, 500, 503])
def test_what_is_no_ack_promises_nothing(status: int) -> None:
    h = consumer()
    h.send("first")
    h.reply("first", status, {})
    assert h.accusations == []


def test_a_repeat_of_what_is_done_is_acknowledged_and_that_is_right() -> None:
    h = consumer()
    h.send("first")
    h.deliver("first")
    h.ends("first")
    for again in ("second", "third"):
        h.send(again, like="first")
        h.reply(again, 204, {})
    assert h.judgement.findings == ()


def test_an_event_about_a_mail_asks_for_none_and_its_ack_promises_none() -> None:
    h = consumer()
    h.send("first")
    h.reply("first", 503, {})
    h.send("told", op="first", tells="delivered")
    h.reply("told", 200, {})
    h.settle()
    assert h.accusations == []


def test_a_second_mail_because_of_an_event_about_the_first_is_found() -> None:
    h = consumer()
    h.send("first")
    h.deliver("first")
    h.reply("first", 200, {})
    h.send("told", op="first", tells="bounced")
    h.deliver("first")
    h.reply("told", 200, {})
    assert h.rules() == {"at-most-once"}


def test_after_an_unknown_outcome_a_second_mail_is_held_against_the_rule_for_that() -> None:
    h = consumer()
    h.send("first")
    h.provider_silent("first")
    h.reply("first", 500, {})
    h.send("again", like="first")
    h.deliver("first")
    h.reply("again", 200, {})
    assert h.rules() == {"at-most-once-after-unknown"}


def test_who_was_killed_before_its_ack_has_one_mail_or_says_that_it_does_not_know() -> None:
    h = consumer()
    h.send("first")
    made = h.commit(h.hand_over("first"))
    h.crash(made, broken=["first"])
    h.restart()
    h.send("again", like="first")
    h.reply("again", 200, {})
    h.settle()
    assert h.accusations == []


def test_who_was_killed_as_it_handed_over_may_not_know_and_acknowledge() -> None:
    h = consumer()
    h.send("first")
    h.crash(h.hand_over("first"), broken=["first"])
    h.restart()
    h.send("again", like="first")
    h.reply("again", 200, {})
    h.settle()
    assert h.accusations == []


# -- what is refused --------------------------------------------------------------------------------------------------


def refused(h: History, *statuses: int) -> None:
    names = ["first", *(f"first~{number}" for number in range(1, len(statuses)))]
    for name, status in zip(names, statuses, strict=True):
        h.send(name, op="first")
        h.reply(name, status, {})
    h.finish("first", names[-1], definite=False)


def test_a_true_event_that_is_refused_whenever_it_comes_is_a_shortcoming() -> None:
    h = consumer()
    refused(h, 422, 400, 400)
    assert h.accusations == []
    assert h.rules(Level.SHOULD) == {"progress"}
    assert "Acknowledge" in h.judgement.findings[0].remedy


def test_a_repeat_that_is_refused_though_its_mail_is_out_is_one_as_well() -> None:
    h = consumer()
    h.send("first")
    h.deliver("first")
    h.ends("first")
    h.send("first~1", op="first")
    h.reply("first~1", 400, {})
    h.finish("first", "first~1", definite=False)
    assert h.rules(Level.SHOULD) == {"progress"}


@pytest.mark.parametrize("statuses", [(503, 503), (409, 409), (429, 400, 429), (500, 400), (400, 500)])
def test_who_asks_the_provider_to_come_again_may_be_busy_for_longer_than_the_schedule(
    statuses: tuple[int, ...],
) -> None:
    h = consumer()
    refused(h, *statuses)
    assert h.judgement.findings == ()


def test_a_refusal_because_the_send_api_refused_is_fair() -> None:
    h = consumer()
    for name in ("first", "first~1"):
        h.send(name, op="first")
        h.provider_says("first", 422)
        h.reply(name, 422, {})
    h.finish("first", "first~1", definite=False)
    assert h.judgement.findings == ()


def test_a_forged_event_is_refused_each_time_and_that_is_right() -> None:
    h = consumer()
    for name in ("first", "first~1"):
        h.send(name, op="first", signature="bad")
        h.reply(name, 401, {})
    h.finish("first", "first~1", definite=False)
    assert h.judgement.findings == ()


def test_who_was_acknowledged_once_is_not_refused_for_good() -> None:
    h = consumer()
    h.send("first")
    h.deliver("first")
    h.reply("first", 200, {})
    h.send("again", like="first")
    h.reply("again", 404, {})
    h.finish("first", "again", definite=False)
    assert h.judgement.findings == ()


# -- what shows nothing ----------------------------------------------------------------------------------------------


def test_a_consumer_that_takes_nothing_does_not_pass() -> None:
    h = consumer()
    refused(h, 503, 503)
    (void,) = h.judgement.voids
    assert void.startswith("first's event was not acknowledged, and nothing was sent for it: the last delivery of it ")
    assert void.endswith("was answered 503 (target.consumer.schedule says how often it comes)")


def test_a_refusal_when_the_mail_is_out_or_in_doubt_voids_nothing() -> None:
    h = consumer()
    h.send("first")
    h.provider_silent("first")
    h.reply("first", 500, {})
    h.finish("first", "first", definite=False)
    assert h.judgement.voids == ()
    h = consumer()
    h.send("first")
    h.crash(h.hand_over("first"), broken=["first"])
    h.restart()
    refused(h, 503)
    assert h.judgement.voids == ()
