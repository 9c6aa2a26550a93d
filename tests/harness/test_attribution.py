"""Which operation a mail belongs to: by its recipient and by its words."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sendtwice.fake_provider.ledger import Mail
from sendtwice.harness.attribution import Attribution, Content, Identity, token


def identity(
    operation: str = "first",
    *,
    recipient: str = "raaaaaaaaaaa",
    subject: str = "saaaaaaaaaaa",
    text: str = "taaaaaaaaaaa",
    scenario: str = "s",
) -> Identity:
    return Identity(scenario, operation, recipient, Content(subject, text))


def mail(
    to: str = "raaaaaaaaaaa@sendtwice.test",
    subject: str = "Receipt saaaaaaaaaaa",
    text: str = "Thanks for taaaaaaaaaaa.",
) -> Mail:
    return Mail("sender@sendtwice.test", tuple(to.split(",")), subject, text)


def known(*identities: Identity) -> Attribution:
    attribution = Attribution()
    for one in identities:
        attribution.add(one)
    return attribution


def found(attribution: Attribution, given_mail: Mail) -> tuple[str, bool, bool]:
    match = attribution.identify(given_mail)
    assert match is not None
    return match.identity.operation, match.swallowed, match.ambiguous


def test_a_mail_belongs_to_the_operation_whose_recipient_and_words_it_has() -> None:
    assert found(known(identity(), identity("other", recipient="rbbbbbbbbbbb")), mail()) == ("first", False, False)


def test_of_two_contents_for_one_recipient_the_words_decide() -> None:
    both = known(identity(), identity("changed", subject="sbbbbbbbbbbb", text="tbbbbbbbbbbb"))
    assert found(both, mail(subject="sbbbbbbbbbbb", text="tbbbbbbbbbbb")) == ("changed", False, False)
    assert found(both, mail()) == ("first", False, False)


def test_a_mail_with_another_subject_alone_is_another_content() -> None:
    both = known(identity(), identity("changed", subject="sbbbbbbbbbbb"))
    assert found(both, mail(subject="sbbbbbbbbbbb")) == ("changed", False, False)


def test_swallowed_words_leave_the_recipient_to_decide() -> None:
    assert found(known(identity()), mail(subject="Hello", text="Hello")) == ("first", True, False)


def test_swallowed_words_of_two_operations_with_one_recipient_are_ambiguous() -> None:
    both = known(identity(), identity("changed", text="tbbbbbbbbbbb"))
    assert found(both, mail(subject="Hello", text="Hello"))[2]


def test_a_mail_that_shows_its_common_subject_alone_is_ambiguous() -> None:
    both = known(identity(), identity("changed", text="tbbbbbbbbbbb"))
    assert found(both, mail(text="Hello")) == ("first", False, True)


def test_a_mail_to_a_fixed_address_is_known_by_its_words() -> None:
    assert (
        found(
            known(identity(), identity("other", recipient="rbbbbbbbbbbb", subject="sbbbbbbbbbbb", text="tbbbbbbbbbbb")),
            mail("desk@x"),
        )[0]
        == "first"
    )


def test_a_mail_of_nobody_is_a_stray() -> None:
    assert known(identity()).identify(mail("someone@else.test", "Hello", "Hello")) is None
    assert known().identify(mail()) is None


def test_a_recipient_is_known_in_any_case_and_with_any_tag() -> None:
    for to in (
        "RAAAAAAAAAAA@sendtwice.test",
        "raaaaaaaaaaa+tag@sendtwice.test",
        "raaaaaaaaaaa.2@sendtwice.test",
        "RaAaAaAaAaAa@SENDTWICE.test",
    ):
        assert found(known(identity()), mail(to))[0] == "first"


def test_the_domain_of_an_address_is_not_searched() -> None:
    assert known(identity()).identify(mail("x@raaaaaaaaaaa.test", "Hello", "Hello")) is None


def test_the_words_are_found_in_html_and_raw_bytes_as_well() -> None:
    both = known(identity(), identity("changed", subject="sbbbbbbbbbbb", text="tbbbbbbbbbbb"))
    html = Mail("a@b", ("raaaaaaaaaaa@x",), "", "", html="<b>sbbbbbbbbbbb tbbbbbbbbbbb</b>")
    raw = Mail("a@b", ("raaaaaaaaaaa@x",), "", "", raw=b"Subject: sbbbbbbbbbbb\r\n\r\ntbbb \xff")
    assert found(both, html) == ("changed", False, False)
    assert found(both, raw) == ("changed", False, False)


def test_operations_with_all_tokens_equal_are_one_group_named_after_the_first() -> None:
    attribution = Attribution()
    first = attribution.add(identity("first"))
    assert attribution.add(identity("second")) is first
    assert found(attribution, mail()) == ("first", False, False)
    assert attribution.of_uid(first.uid) is first
    assert attribution.uid(mail()) == first.uid


def test_one_delivery_is_attributed_by_its_own_recipient() -> None:
    both = known(identity(), identity("other", recipient="rbbbbbbbbbbb", subject="sbbbbbbbbbbb", text="tbbbbbbbbbbb"))
    shared = mail("raaaaaaaaaaa@x,rbbbbbbbbbbb@x", "saaaaaaaaaaa sbbbbbbbbbbb", "taaaaaaaaaaa tbbbbbbbbbbb")
    matches = [both.identify(shared, (to,)) for to in shared.recipients]
    assert [m.identity.operation for m in matches if m is not None] == ["first", "other"]


@given(st.sampled_from("rstkme"))
def test_tokens_are_fresh_of_one_length_and_survive_folding(prefix: str) -> None:
    one, two = token(prefix), token(prefix)
    assert one != two
    assert len(one) == len(two) == 12
    assert re.fullmatch(r"[a-z0-9]+", one)
    assert one.startswith(prefix)
