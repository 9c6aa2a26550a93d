"""Which operation a mail belongs to: by its recipient and by its words."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sendtwice.fake_provider.ledger import Mail
from sendtwice.harness.attribution import Attribution, Content, Identity, token


def identity(
    operation: str = "first", *, recipient: str = "raaa", subject: str = "saaa", text: str = "taaa", scenario: str = "s"
) -> Identity:
    return Identity(scenario, operation, recipient, Content(subject, text))


def mail(to: str = "raaa@sendtwice.test", subject: str = "Receipt saaa", text: str = "Thanks for taaa.") -> Mail:
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
    assert found(known(identity(), identity("other", recipient="rbbb")), mail()) == ("first", False, False)


def test_of_two_contents_for_one_recipient_the_words_decide() -> None:
    both = known(identity(), identity("changed", subject="sbbb", text="tbbb"))
    assert found(both, mail(subject="sbbb", text="tbbb")) == ("changed", False, False)
    assert found(both, mail()) == ("first", False, False)


def test_a_mail_with_another_subject_alone_is_another_content() -> None:
    both = known(identity(), identity("changed", subject="sbbb"))
    assert found(both, mail(subject="sbbb")) == ("changed", False, False)


def test_swallowed_words_leave_the_recipient_to_decide() -> None:
    assert found(known(identity()), mail(subject="Hello", text="Hello")) == ("first", True, False)


def test_swallowed_words_of_two_operations_with_one_recipient_are_ambiguous() -> None:
    both = known(identity(), identity("changed", text="tbbb"))
    assert found(both, mail(subject="Hello", text="Hello"))[2]


def test_a_mail_that_shows_its_common_subject_alone_is_ambiguous() -> None:
    both = known(identity(), identity("changed", text="tbbb"))
    assert found(both, mail(text="Hello")) == ("first", False, True)


def test_a_mail_to_a_fixed_address_is_known_by_its_words() -> None:
    assert (
        found(known(identity(), identity("other", recipient="rbbb", subject="sbbb", text="tbbb")), mail("desk@x"))[0]
        == "first"
    )


def test_a_mail_of_nobody_is_a_stray() -> None:
    assert known(identity()).identify(mail("someone@else.test", "Hello", "Hello")) is None
    assert known().identify(mail()) is None


def test_a_recipient_is_known_in_any_case_and_with_any_tag() -> None:
    for to in ("RAAA@sendtwice.test", "raaa+tag@sendtwice.test", "raaa.2@sendtwice.test", "RaAa@SENDTWICE.test"):
        assert found(known(identity()), mail(to))[0] == "first"


def test_the_domain_of_an_address_is_not_searched() -> None:
    assert known(identity()).identify(mail("x@raaa.test", "Hello", "Hello")) is None


def test_the_words_are_found_in_html_and_raw_bytes_as_well() -> None:
    both = known(identity(), identity("changed", subject="sbbb", text="tbbb"))
    html = Mail("a@b", ("raaa@x",), "", "", html="<b>sbbb tbbb</b>")
    raw = Mail("a@b", ("raaa@x",), "", "", raw=b"Subject: sbbb\r\n\r\ntbbb \xff")
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
    both = known(identity(), identity("other", recipient="rbbb", subject="sbbb", text="tbbb"))
    shared = mail("raaa@x,rbbb@x", "saaa sbbb", "taaa tbbb")
    matches = [both.identify(shared, (to,)) for to in shared.recipients]
    assert [m.identity.operation for m in matches if m is not None] == ["first", "other"]


@given(st.sampled_from("rstkme"))
def test_tokens_are_fresh_of_one_length_and_survive_folding(prefix: str) -> None:
    one, two = token(prefix), token(prefix)
    assert one != two
    assert len(one) == len(two) == 12
    assert re.fullmatch(r"[a-z0-9]+", one)
    assert one.startswith(prefix)
