"""``explain OLD --against NEW``: what a caller meets who moves, the worst first, and nothing left out."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts.model import Contract
from sendtwice.fake_provider.contracts.wire import AnswerClass
from sendtwice.harness.cli import main
from sendtwice.harness.explain import diff as contract_diff
from sendtwice.harness.explain import diff_answers
from sendtwice.harness.explain.diff import Difference, differences
from sendtwice.harness.explain.diff_rules import Harm, Weight
from sendtwice.harness.explain.diff_table import FACT_RULES, FALLBACK, GROUP_RULES, RULES
from sendtwice.harness.explain.facts import FACTS
from tests.harness import language

LANGUAGE = language.claims()


def told(old: Contract, new: Contract, name: str) -> Difference:
    found = [one for one in differences(old, new) if one.name == name]
    assert len(found) == 1, [one.name for one in differences(old, new)]
    return found[0]


def moved(name: str, old: Any, new: Any, **more: Any) -> Difference:
    """What is told of one claim that differs; ``more`` is said under both contracts."""
    claims = {key.replace("__", "."): value for key, value in more.items()}
    sides = [{**claims, **({name: value} if value is not None else {})} for value in (old, new)]
    return told(language.contract(sides[0], name="old"), language.contract(sides[1], name="new"), name)


# -- nothing is left out ---------------------------------------------------------------------------------------------


def test_every_claim_has_a_rule_or_is_left_to_the_fallback_on_purpose() -> None:
    assert set(RULES) | set(FALLBACK) == set(LANGUAGE)
    assert not set(RULES) & set(FALLBACK)
    assert set(FACT_RULES) == set(FACTS)


@pytest.mark.parametrize(("name", "kind"), LANGUAGE.items(), ids=LANGUAGE)
def test_whatever_differs_in_a_claim_is_told(name: str, kind: Any) -> None:
    group = {"batch.max": 1} if name.startswith("batch.") and name != "batch.max" else {}
    says = [{"value": value} for value in language.values(kind)] + ["unknown"]
    for before, after in itertools.permutations(says, 2):
        old, new = (
            language.contract({**group, name: value}, name=side) for value, side in ((before, "a"), (after, "b"))
        )
        one = told(old, new, name)
        assert one.text[0].isupper() or one.text.startswith("b does not"), one.text
        assert "{" not in one.text
        assert (one.weight is Weight.UNKNOWN) == (after == "unknown")
        if "unknown" not in (before, after):
            assert one.before != one.after


@pytest.mark.parametrize(("name", "kind"), LANGUAGE.items(), ids=LANGUAGE)
def test_a_claim_that_is_no_longer_promised_or_also_otherwise_is_told(name: str, kind: Any) -> None:
    first, second, *_ = language.values(kind)
    firm = language.contract({name: {"value": first}})
    seen = language.contract({name: {"value": first, "basis": "observed"}})
    loose = language.contract({name: {"value": first, "also": [second]}})
    assert told(firm, seen, name).weight is Weight.UNKNOWN
    assert told(seen, firm, name).weight is Weight.EASES
    assert told(firm, loose, name).weight is Weight.CHANGES
    assert told(loose, firm, name).weight is Weight.EASES


@pytest.mark.parametrize("name", contracts.names())
def test_a_contract_differs_in_nothing_from_itself(name: str) -> None:
    contract = contracts.load(name)
    assert differences(contract, contract) == []
    assert "no difference that a caller can meet" in list(contract_diff.text(contract, contract))


@pytest.mark.parametrize(
    ("old", "new"), list(itertools.permutations(["postfleet", "rasket", "pylota", "universal"], 2))
)
def test_every_format_tells_every_difference_between_the_shipped_contracts(old: str, new: str) -> None:
    sides = contracts.load(old), contracts.load(new)
    found = differences(*sides)
    text = " ".join(" ".join(contract_diff.text(*sides)).split())
    page = "\n".join(contract_diff.markdown(*sides))
    data = contract_diff.data(*sides)
    assert sum(data["counts"].values()) == len(data["differences"]) == len(found)
    for one in found:
        assert "  " not in one.text
        assert f"- {one.text}." in text
        assert page.count(one.text.replace("|", "\\|").replace("<", "&lt;")) >= 1
    assert json.loads(json.dumps(data)) == data


def test_notes_sources_and_what_is_played_are_no_difference() -> None:
    old = language.contract({"concurrent": {"value": "refuse", "note": "a", "source": "b", "play": "wait"}})
    assert differences(old, language.contract({"concurrent": "refuse"})) == []
    assert differences(language.contract({"concurrent": {"play": "wait"}}), language.contract({})) == []


def test_the_order_of_parts_is_no_difference_and_that_of_checks_is() -> None:
    assert (
        differences(language.contract({"scope": ["tenant", "path"]}), language.contract({"scope": ["path", "tenant"]}))
        == []
    )
    assert moved("order", ["auth", "key"], ["key", "auth"]).weight is Weight.CHANGES


# -- how bad -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "old", "new", "harm", "text"),
    [
        ("key.max", 256, 255, Harm.REFUSED, "Keys longer than 255 characters are refused (old: 256)"),
        ("key.max", 255, 256, Harm.NONE, "Keys may be longer: 256 characters (old: 255)"),
        ("key.max", None, 64, Harm.REFUSED, "Keys longer than 64 characters are refused (old does not say)"),
        ("key.min", 1, 16, Harm.REFUSED, "Keys shorter than 16 characters are refused (old: 1)"),
        ("key.min", 16, 1, Harm.NONE, "Keys may be shorter: 1 characters (old: 16)"),
        (
            "key.charset",
            "any",
            "word",
            Harm.REFUSED,
            ("A key with anything but letters, digits, - and _ is refused (old: any text)"),
        ),
        ("key.charset", "uuid", "word", Harm.NONE, "A key may hold more: letters, digits, - and _ (old: a UUID)"),
        (
            "retention.at_least",
            86_400,
            3600,
            Harm.TWICE,
            "A key is forgotten after 1 h, not 24 h: a retry after that sends a second mail",
        ),
        ("retention.at_least", 3600, 86_400, Harm.NONE, "A key is remembered longer: 24 h at least, not 1 h"),
        (
            "retention.at_most",
            3600,
            2_592_000,
            Harm.LOST,
            "A key may be remembered for 30 days, not 1 h: another mail under it before then is not sent",
        ),
        (
            "scope",
            ["tenant"],
            ["mailbox"],
            Harm.TWICE,
            (
                "Keys are compared per mailbox, not per tenant: a repeat with another mailbox is a second mail; "
                "one key counts for every tenant, and of two mails only the first is sent"
            ),
        ),
        (
            "scope",
            ["tenant", "mailbox"],
            ["tenant"],
            Harm.LOST,
            (
                "Keys are compared per tenant, not per tenant and mailbox: one key counts for every mailbox, "
                "and of two mails only the first is sent"
            ),
        ),
        (
            "fingerprint.parts",
            ["body"],
            ["body", "path"],
            Harm.REFUSED,
            "Compared too: path; a repeat that differs there is another request (old: body)",
        ),
        (
            "fingerprint.parts",
            ["body", "path"],
            ["body"],
            Harm.LOST,
            "Not compared: path; another mail that differs only there is taken for a repeat (old: body and path)",
        ),
        (
            "fingerprint.excluded",
            ["/a"],
            ["/b_c"],
            Harm.LOST,
            (
                "Not compared: /b_c; another mail that differs only there is taken for a repeat; "
                "Compared too: /a; a repeat that differs there is another request (old: /a)"
            ),
        ),
        (
            "outcomes.provider_refused",
            "released",
            "stored",
            Harm.LOST,
            (
                "After a refusal of the mail the answer is stored: the corrected request needs a new key "
                "(old: not stored, the key is free again)"
            ),
        ),
        (
            "outcomes.crash",
            "kept",
            "released",
            Harm.TWICE,
            (
                "After a crash the key is free: a repeat may send a second mail"
                " (old: in progress until something else ends it)"
            ),
        ),
        (
            "key.presence",
            "required",
            "optional",
            Harm.TWICE,
            "A send whose key was left out is not refused: every repeat of it is a second mail (old: required)",
        ),
        (
            "key.presence",
            "none",
            "optional",
            Harm.ADAPT,
            "A send may have a key, and has to have one to be repeated (old: there is none; every send is a new mail)",
        ),
        ("duplicates", "replay", "execute", Harm.TWICE, "A repeat is sent again (old: the first answer again)"),
        (
            "mismatch",
            "refuse",
            "replay",
            Harm.LOST,
            "Other content under a used key is not sent, and answered as if it were (old: refused)",
        ),
        (
            "fingerprint.field_order",
            "same",
            "different",
            Harm.REFUSED,
            "A repeat with its fields in another order is another request, and no repeat (old: the same request)",
        ),
        (
            "lease.lasts",
            300,
            5,
            Harm.TWICE,
            (
                "The claim of a request in flight lapses after 5 s: beside a slower first one a repeat may be sent"
                " (old: 5 min)"
            ),
        ),
        (
            "hints.retry_after",
            ["failed", "rate_limited"],
            ["failed"],
            Harm.ADAPT,
            (
                "Retry-After no longer comes with rate limited: the caller has to choose when to repeat"
                " (old: failed and rate limited)"
            ),
        ),
        ("waits", None, 60, Harm.NONE, "A repeat may wait up to 1 min for the first (old does not say)"),
    ],
)
def test_a_difference_is_told_in_the_callers_words(name: str, old: Any, new: Any, harm: Harm, text: str) -> None:
    one = moved(name, old, new)
    assert (one.harm, one.text) == (harm, text)
    assert one.weight is harm.weight


def test_a_refused_repeat_is_told_with_its_answer() -> None:
    answers = {"accepted": {"status": 200}, "duplicate": {"status": 409, "code": {"at": "/code", "is": "seen"}}}
    old = language.contract({"duplicates": "replay"}, name="old", answers=answers)
    new = language.contract({"duplicates": "refuse"}, name="new", answers=answers)
    one = told(old, new, "duplicates")
    assert one.harm is Harm.MISREAD
    assert one.text.startswith(
        "A repeat is refused with 409 seen, not replayed: the first answer's id cannot be learnt"
    )


def test_keys_that_are_ignored_when_they_are_not_valid_are_worse_than_refused_ones() -> None:
    one = moved("key.max", 256, 64, key__invalid="ignore")
    assert one.harm is Harm.TWICE
    assert one.text == "Keys longer than 64 characters are ignored and guard nothing (old: 256)"


def test_a_late_retry_that_is_refused_sends_no_second_mail() -> None:
    one = moved("retention.at_least", 86_400, 3600, retention__then="refuse")
    assert one.harm is Harm.REFUSED
    assert one.text.endswith("a retry after that is refused")


def test_what_was_seen_before_is_no_change() -> None:
    one = moved("concurrent", {"value": "refuse", "also": ["wait"]}, "wait")
    assert one.weight is Weight.EASES


def test_what_the_new_contract_leaves_open_is_told_with_what_is_at_stake() -> None:
    one = moved("retention.at_least", 86_400, None)
    assert one.weight is Weight.UNKNOWN
    assert one.text == (
        "new does not say how long a key is remembered, at least (old: 24 h); at worst a mail goes out twice"
    )


def test_the_worst_comes_first() -> None:
    found = differences(contracts.load("rasket"), contracts.load("postfleet"))
    ranks = [(list(Weight).index(one.weight), one.harm) for one in found]
    assert ranks == sorted(ranks)
    assert found[0].harm is Harm.TWICE


# -- groups and facts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUP_RULES)
def test_a_group_that_one_contract_lacks_is_one_difference(group: str) -> None:
    parts: dict[str, Any] = {group: {}, "routes": {"batch": {"path": "/batch"}}}
    with_it, without = language.contract({}, **parts), language.contract({}, routes=parts["routes"])
    assert told(with_it, without, group).weight is Weight.UNKNOWN
    assert told(without, with_it, group).weight is (Weight.BREAKS if group == "approval" else Weight.EASES)
    assert len(differences(with_it, without)) == 1


@pytest.mark.parametrize(
    ("presence", "harm", "ending"),
    [
        ("optional", Harm.TWICE, "there it guards nothing"),
        ("required", Harm.REFUSED, "a send without it there is refused"),
    ],
)
def test_a_key_in_another_place_is_told(presence: str, harm: Harm, ending: str) -> None:
    old = language.contract({"key.presence": presence})
    new = language.contract({"key.presence": presence, "key.at": "body:/client_id"})
    one = told(old, new, "key.at")
    assert one.harm is harm
    assert one.text == f"The key goes into body:/client_id, not into header:Idempotency-Key: {ending}"


def test_fields_that_are_needed_besides_are_told_and_fewer_break_nothing() -> None:
    few, many = (language.contract({}, mail={"required": fields}) for fields in (["/to"], ["/to", "/text"]))
    assert told(few, many, "mail.required").harm is Harm.REFUSED
    assert told(many, few, "mail.required").harm is Harm.NONE


def test_routes_are_compared_by_their_names() -> None:
    def routes(**route: Any) -> Contract:
        return language.contract({"key.presence": "optional"}, routes={"reply": {"path": "/reply", **route}})

    assert told(routes(), routes(path="/r"), "routes.reply.path").weight is Weight.CHANGES
    assert told(routes(), routes(key="ignored"), "routes.reply.key").harm is Harm.TWICE
    assert told(routes(), routes(key="required"), "routes.reply.key").harm is Harm.REFUSED
    assert told(routes(), routes(scope=["path"]), "routes.reply.scope").harm is Harm.TWICE
    assert told(routes(), routes(asks="person"), "routes.reply.asks").harm is Harm.REFUSED
    assert told(routes(), routes(does="draft"), "routes.reply.does").harm is Harm.MISREAD
    bare = language.contract({"key.presence": "optional"})
    assert told(routes(), bare, "routes").weight is Weight.UNKNOWN
    assert told(bare, routes(), "routes").weight is Weight.EASES


# -- answers -----------------------------------------------------------------------------------------------------------


def answering(name: str = "mine", /, **answers: Any) -> Contract:
    return language.contract({}, name=name, answers={"accepted": {"status": 200}, **answers})


def coded(status: int, code: str, at: str = "/code") -> dict[str, Any]:
    return {"status": status, "code": {"at": at, "is": code}}


def test_the_same_news_with_another_status_or_code_must_be_adapted() -> None:
    one = told(answering(conflict=coded(409, "a")), answering(conflict=coded(422, "b", "/name")), "answers.conflict")
    assert one.weight is Weight.CHANGES
    assert one.text == "Other content under a used key is answered 422 b, not 409 a, and the code stands at /name"


def test_an_answer_that_the_caller_reads_rightly_already_needs_nothing() -> None:
    one = told(answering(failed={"status": "5xx"}), answering(failed={"status": [500, 503]}), "answers.failed")
    assert one.weight is Weight.EASES


def test_news_without_an_answer_any_more_are_told() -> None:
    old, new = answering("old", in_progress=coded(409, "a")), answering("new")
    one = told(old, new, "answers.in_progress")
    assert one.weight is Weight.UNKNOWN
    assert one.text == "new does not say how it tells a repeat while the first runs (old: 409 a)"
    assert told(new, old, "answers.in_progress").weight is Weight.CHANGES


@pytest.mark.parametrize(
    ("old", "new", "read", "harm", "text"),
    [
        (
            {"in_progress": {"status": 409}},
            {"conflict": {"status": 409}},
            "conflict",
            Harm.MISREAD,
            "409 was a repeat while the first runs, and may be other content under a used key",
        ),
        (
            {"refused": {"status": "4xx"}},
            {"in_progress": coded(409, "busy")},
            "in_progress",
            Harm.TWICE,
            (
                "409 busy was a refusal, and may be a repeat while the first runs: who mends it and sends it "
                "under a new key sends twice"
            ),
        ),
        (
            {"accepted": {"status": "2xx"}},
            {"pending": {"status": 202}},
            "pending",
            Harm.LOST,
            "202 was a first success, and may be a mail that waits for approval: nothing may have been sent",
        ),
        (
            {"failed": {"status": "5xx"}},
            {"unknown": {"status": 504}},
            "unknown",
            Harm.MISREAD,
            "504 was a failure, and may be an unknown outcome",
        ),
    ],
)
def test_an_answer_that_means_something_else_breaks(
    old: dict[str, Any], new: dict[str, Any], read: str, harm: Harm, text: str
) -> None:
    one = told(answering(**old), answering(**new), f"answers.{read}.read")
    assert (one.weight, one.harm, one.text) == (Weight.BREAKS, harm, text)


def test_a_code_that_tells_them_apart_under_both_contracts_is_no_collision() -> None:
    old = answering(in_progress=coded(409, "busy"), conflict=coded(409, "other"))
    new = answering(in_progress=coded(409, "busy"), conflict=coded(409, "other", "/name"))
    assert [one.name for one in differences(old, new)] == ["answers.conflict"]


def test_an_answer_that_may_be_several_things_under_both_is_no_collision() -> None:
    both: dict[str, Any] = {"failed": {"status": "5xx"}, "unknown": {"status": [500, 502]}}
    new: dict[str, Any] = {"failed": {"status": 500}, "unknown": {"status": 500}}
    assert all(one.weight is Weight.EASES for one in differences(answering(**both), answering(**new)))


def test_a_hundred_as_a_whole_leaves_out_what_is_listed_for_itself() -> None:
    new = answering(rate_limited={"status": 429}, refused={"status": "4xx"})
    assert (
        differences(answering(rate_limited={"status": 429}, refused={"status": [422]}), new)[0].weight is Weight.CHANGES
    )


def test_classes_after_which_a_caller_does_the_same_are_not_mistaken_for_harm() -> None:
    found = differences(answering(refused={"status": 400}), answering(key_missing={"status": 400}))
    assert not [one for one in found if one.weight is Weight.BREAKS]


def test_an_id_that_stands_elsewhere_is_told() -> None:
    old, new = (answering(accepted={"status": 200, "id": at}) for at in ("/id", "/data/id"))
    one = told(old, new, "answers.accepted.id")
    assert one.text == "The id in the answer for a first success stands at /data/id, not /id"
    assert one.harm is Harm.MISREAD


def test_answers_of_a_route_of_its_own_are_compared() -> None:
    def route(status: int) -> Contract:
        routes = {"draft": {"path": "/d", "does": "draft", "answers": {"pending": {"status": status}}}}
        return language.contract({}, routes=routes)

    one = told(route(201), route(202), "routes.draft.answers.pending")
    assert one.text == "On the route draft a mail that waits for approval is answered 202, not 201"


def test_every_class_of_answer_has_words() -> None:
    assert set(diff_answers.CLASSES) == set(AnswerClass)


# -- a run judged by another contract ------------------------------------------------------------------------------


def test_a_run_says_what_it_is_judged_by_otherwise() -> None:
    old = language.contract({"key.max": 256, "scope": ["tenant"], "waits": 5}, name="old")
    new = language.contract({"key.max": 64, "scope": ["tenant"]}, name="new")
    assert list(contract_diff.lines(old, new)) == [
        "judged by new, not by old, the target's own; under new:",
        "  may be refused: Keys longer than 64 characters are refused (old: 256)",
        "  and 1 more: sendtwice explain old --against new",
    ]


def test_a_run_says_no_more_than_fits_and_how_much_is_left() -> None:
    sides = contracts.load("rasket"), contracts.load("postfleet")
    said = list(contract_diff.lines(*sides, limit=3))
    assert len(said) == 5
    assert said[1].startswith("  may send twice: ")
    assert said[-1] == f"  and {len(differences(*sides)) - 3} more: sendtwice explain rasket --against postfleet"


def test_a_run_says_so_when_nothing_is_otherwise() -> None:
    same = [language.contract({}, name=name) for name in ("old", "new")]
    assert list(contract_diff.lines(*same))[1:] == ["  nothing that a caller would meet is otherwise"]


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_tells_a_diff_in_every_format(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nextends: rasket\nkey: {max: 64}\n")

    def call(shape: str) -> str:
        result = CliRunner().invoke(main, ("explain", "rasket", "--against", str(path), "--format", shape))
        assert result.exit_code == 0, result.output
        return result.output

    sentence = "Keys longer than 64 characters are refused (rasket: 256)."
    assert call("text").splitlines() == [
        "rasket -> mine  what a caller meets who moves from Rasket, POST /emails to Rasket, POST /emails",
        "1 breaks, 0 must be adapted, 0 not said any more, 0 nothing to do",
        "",
        "breaks (1)",
        "  may be refused",
        f"    - {sentence}",
    ]
    assert f"| may be refused | {sentence} |" in call("markdown")
    (one,) = json.loads(call("json"))["differences"]
    assert one == {
        "name": "key.max", "weight": "breaks", "harm": "refused", "text": sentence, "before": "256", "after": "64",
    }  # fmt: skip
