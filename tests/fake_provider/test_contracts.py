"""Contract files: every shipped one loads and says what its vendor's page says; a mistake in one is told in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider import contracts, dialects
from sendtwice.fake_provider.contracts import AnswerClass, Basis
from sendtwice.fake_provider.contracts.model import as_claims
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.fake_provider.emulator.answers import CUSTOMARY, render

MINIMAL = """\
name: mine
title: Mine
request: {path: /send}
answers:
  accepted: {status: 200, id: /id}
"""

#: The contracts of the pages that this project starts from: each of their claims names its section.
SEEDS = ("postfleet", "rasket", "pylota")

#: What the vendors' pages state, claim by claim.
STATED: dict[str, dict[str, Any]] = {
    "postfleet": {
        "delivery": "inline",
        "key.presence": "optional",
        "key.min": 1,
        "key.max": 256,
        "key.unit": "characters",
        "key.empty": "invalid",
        "scope": ["tenant", "mailbox"],
        "fingerprint.parts": ["body"],
        "fingerprint.fields": ["/to", "/subject", "/text", "/in_reply_to"],
        "fingerprint.field_order": "same",
        "duplicates": "replay",
        "mismatch": "refuse",
        "concurrent": "refuse",
        "replay.id": "same",
        "replay.status": "declared",
        "outcomes.provider_refused": "stored",
        "outcomes.unknown": "kept",
        "outcomes.disconnect": "stored",
        "second_after_unknown": "forbidden",
        "approval.own_key": "refused",
        "approval.creation": "not-deduplicated",
        "events.ids": "stable",
        "events.delivery": "at-least-once",
        "events.redrive": "same-id",
    },
    "rasket": {
        "key.presence": "optional",
        "key.foreign": "ignored",
        "key.min": 1,
        "key.max": 256,
        "key.empty": "invalid",
        "key.invalid": "refuse",
        "scope": ["tenant"],
        "fingerprint.parts": ["body", "path"],
        "fingerprint.field_order": "same",
        "duplicates": "replay",
        "mismatch": "refuse",
        "concurrent": "refuse",
        "replay.id": "same",
        "replay.status": "same",
        "outcomes.invalid": "released",
        "outcomes.server_error": "released",
        "outcomes.disconnect": "stored",
        "retention.at_least": 24 * 3600,
        "retention.at_most": 25 * 3600,
        "retention.sweep": 3600,
        "retention.then": "execute",
        "batch.max": 100,
        "batch.key": "whole",
        "batch.key_space": "shared",
        "lookup.by": ["list"],
    },
    "rasket-events": {"key.min": 1, "key.max": 255, "key.presence": "optional", "duplicates": "accept"},
    "pylota": {
        "delivery": "queued",
        "key.presence": "required",
        "key.foreign": "ignored",
        "key.min": 1,
        "key.max": 255,
        "key.charset": "printable-ascii",
        "scope": ["tenant", "mailbox"],
        "fingerprint.parts": ["body", "path"],
        "fingerprint.field_order": "same",
        "duplicates": "replay",
        "mismatch": "refuse",
        "concurrent": "refuse",
        "replay.id": "same",
        "outcomes.unknown": "stored",
        "outcomes.disconnect": "stored",
        "second_after_unknown": "forbidden",
        "reconciliation.within": 30 * 60,
        "reconciliation.by": ["sender", "recipient", "subject"],
        "reconciliation.event": "message.reconciled",
        "retention.at_least": 30 * 24 * 3600,
        "retention.then": "execute",
    },
    "stripe-v1": {"outcomes.server_error": "stored", "outcomes.rate_limited": "released", "retention.at_least": 86400},
    "ietf-07": {"key.form": "quoted", "mismatch": "refuse", "concurrent": "refuse"},
    "nylas": {"retention.at_most": 3600, "retention.from": "first-receipt", "propagation": "not-forwarded"},
    "loops": {"duplicates": "refuse", "key.max": 100},
    "plunk": {"duplicates": "refuse", "fingerprint.parts": [], "concurrent": "refuse"},
    "svix": {
        "fingerprint.parts": [],
        "concurrent": "wait",
        "waits": 5,
        "lease.lasts": 5,
        "lease.then": "execute",
        "outcomes.provider_refused": "released",
        "second_after_unknown": "permitted",
        "retention.at_least": 12 * 3600,
    },
    "acs-email": {
        "key.first_sent.window": 300,
        "key.charset": "uuid",
        "outcomes.invalid": "stored",
        "outcomes.server_error": "released",
        "retention.from": "first-sent",
        "retention.then": "refuse",
    },
    "sparkpost": {"key.charset": "dotted-word", "scheduled.keeps": 86400, "mismatch": "refuse"},
    "emailit": {
        "key.charset": "word",
        "fingerprint.parts": [],
        "mismatch": "replay",
        "replay.status": "declared",
        "retention.from": "first-success",
    },
    "courier": {"scope": ["tenant", "path"], "outcomes.server_error": "stored", "retention.chosen_max": 365 * 86400},
    "novu": {
        "scope": ["tenant"],
        "fingerprint.parts": ["body"],
        "fingerprint.field_order": "different",
        "fingerprint.whitespace": "same",
        "outcomes.invalid": "stored",
        "lease.lasts": 300,
        "store_failure": "closed",
        "hints.retry_after": ["in_progress"],
    },
}

#: What the pages leave open, so that nothing is held against anyone.
LEFT_OPEN = {
    "postfleet": (
        "key.charset",
        "retention.at_least",
        "lease.lasts",
        "order",
        "replay.marker",
        "reconciliation.within",
    ),
    "rasket": ("key.charset", "batch.partial", "lease.lasts", "hints.retry_after", "fingerprint.whitespace"),
    "pylota": ("key.empty", "key.invalid", "retention.at_most", "lease.lasts", "order", "events.ids"),
    "resend": ("replay.marker", "scope", "outcomes.invalid"),
    "ietf-07": ("key.presence", "fingerprint.parts", "retention.at_least"),
    "courier": ("mismatch", "concurrent", "replay.marker"),
}

#: Routes: what each does, and whether it takes a key.
ROUTES = [
    ("postfleet", "send", "POST /api/v1/send", "send", "optional"),
    ("postfleet", "draft", "POST /api/v1/drafts", "draft", "ignored"),
    ("rasket", "batch", "POST /emails/batch", "send", "optional"),
    ("rasket", "template-test", "POST /templates/{id}/test", "send", "optional"),
    ("rasket", "broadcast-test", "POST /broadcasts/{id}/test", "send", "optional"),
    ("rasket", "conversation", "POST /inbox/conversations", "send", "optional"),
    ("rasket", "conversation-reply", "POST /inbox/conversations/{id}/reply", "send", "optional"),
    ("rasket", "conversation-note", "POST /inbox/conversations/{id}/notes", "nothing", "optional"),
    ("rasket", "store-event", "POST /events/store", "nothing", "optional"),
    ("rasket", "event", "POST /events/send", "send", "ignored"),
    ("rasket", "broadcast-send", "POST /broadcasts/{id}/send", "launch", "ignored"),
    ("pylota", "send", "POST /messages", "send", "required"),
    ("pylota", "reply", "POST /reply", "send", "required"),
    ("pylota", "reply-all", "POST /reply-all", "send", "required"),
    ("pylota", "forward", "POST /forward", "send", "required"),
    ("pylota", "resolve", "POST /messages/{id}/resolve", "resolve", "optional"),
    ("pylota", "other-post", "POST /labels", "nothing", "optional"),
    ("pylota", "assertions", "POST /assertions", "nothing", "ignored"),
    ("pylota", "http-signatures", "POST /http-signatures", "nothing", "ignored"),
    ("pylota", "provider-event", "POST /hooks/ses", "reconcile", "ignored"),
    ("pylota", "inbound-event", "POST /hooks/ses/inbound", "nothing", "ignored"),
]

#: Answers that the pages show: their status and their code.
ANSWERS = [
    ("postfleet", "send", "accepted", 201, None),
    ("postfleet", "send", "replayed", 200, None),
    ("postfleet", "send", "pending", 202, None),
    ("postfleet", "send", "conflict", 409, "idempotency_conflict"),
    ("postfleet", "send", "in_progress", 409, "idempotency_in_progress"),
    ("postfleet", "send", "unknown", 502, "delivery_outcome_unknown"),
    ("rasket", "send", "accepted", 200, None),
    ("rasket", "send", "replayed", 200, None),
    ("rasket", "send", "conflict", 409, "invalid_idempotent_request"),
    ("rasket", "send", "in_progress", 409, "concurrent_idempotent_requests"),
    ("rasket", "send", "key_invalid", 400, "invalid_idempotency_key"),
    ("rasket", "send", "refused", 422, "missing_required_field"),
    ("rasket", "send", "rate_limited", 429, "rate_limit_exceeded"),
    ("rasket", "broadcast-send", "refused", 400, "validation_error"),
    ("rasket", "store-event", "accepted", 202, None),
    ("rasket-events", "send", "accepted", 202, None),
    ("rasket-events", "send", "replayed", 202, None),
    ("pylota", "send", "conflict", 409, "idempotency_conflict"),
    ("pylota", "send", "in_progress", 409, "request_in_progress"),
    ("pylota", "send", "key_missing", 400, "idempotency_key_required"),
    ("sparkpost", "send", "conflict", 409, "1600"),
    ("sparkpost", "send", "in_progress", 409, "1601"),
    ("sparkpost", "send", "key_invalid", 400, "1602"),
    ("acs-email", "send", "expired", 412, None),
    ("novu", "send", "conflict", 422, None),
    ("plunk", "send", "duplicate", 409, "IDEMPOTENCY_KEY_REUSED"),
]


@pytest.mark.parametrize("name", contracts.names())
def test_every_shipped_contract_loads_and_says_where_it_is_from(name: str) -> None:
    contract = contracts.load(name)
    assert contract.name == name
    assert contract.title
    assert contract.summary
    assert contract.source
    assert len(contracts.sha256(contract)) == 64


@pytest.mark.parametrize("name", contracts.names())
def test_a_claim_is_known_or_open_and_never_both(name: str) -> None:
    for path, claim in as_claims(contracts.load(name)).items():
        if claim.basis is Basis.UNKNOWN:
            assert (path, claim.value, claim.also, claim.source) == (path, None, [], None)
        else:
            assert claim.value is not None, path


@pytest.mark.parametrize("name", SEEDS)
def test_a_claim_of_a_seed_names_the_section_that_says_so(name: str) -> None:
    claims = as_claims(contracts.load(name))
    assert [path for path, claim in claims.items() if claim.basis is not Basis.UNKNOWN and not claim.source] == []


@pytest.mark.parametrize(
    ("name", "path", "value"), [(name, path, value) for name, said in STATED.items() for path, value in said.items()]
)
def test_a_contract_says_what_its_page_says(name: str, path: str, value: Any) -> None:
    claim = as_claims(contracts.load(name))[path]
    assert (claim.value, claim.judged) == (value, True)


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, paths in LEFT_OPEN.items() for path in paths])
def test_a_contract_leaves_open_what_its_page_leaves_open(name: str, path: str) -> None:
    assert not as_claims(contracts.load(name))[path].judged


@pytest.mark.parametrize(("name", "route", "request_line", "does", "key"), ROUTES)
def test_the_routes_of_the_pages_do_and_take_what_is_said(
    name: str, route: str, request_line: str, does: str, key: str
) -> None:
    contract = contracts.load(name)
    found = contract.route(route)
    assert (f"{found.method} {found.path}", found.does, contract.takes_key(route)) == (request_line, does, key)


@pytest.mark.parametrize(("name", "route", "kind", "status", "code"), ANSWERS)
def test_answers_have_the_status_and_the_code_of_the_page(
    name: str, route: str, kind: str, status: int, code: str | None
) -> None:
    shape = contracts.load(name).shapes(AnswerClass(kind), route)[0]
    assert status in shape.status
    assert (shape.code.one_of[0] if shape.code else None) == code


def test_what_the_seeds_say_of_single_places() -> None:
    postfleet, rasket, pylota = (contracts.load(name) for name in SEEDS)
    assert (postfleet.key.at, rasket.key.at, pylota.key.at) == (
        "body:/client_id",
        "header:Idempotency-Key",
        "header:Idempotency-Key",
    )
    assert {postfleet.routes[name].asks for name in ("approve", "reject")} == {"person"}
    assert rasket.key_at("store-event") == "body:/idempotency_key"
    assert "User-Agent" in rasket.request.headers
    assert (rasket.concurrent.also, rasket.concurrent.played("execute")) == (["wait"], "wait")
    assert pylota.dry_run == "query:dry_run"
    assert (pylota.routes["resolve"].scope, pylota.routes["other-post"].scope) == (["tenant"], ["tenant"])
    shown = {(m.header or m.at, m.equals) for m in pylota.replay.marker.value or ()}
    assert shown == {("Idempotent-Replayed", "true"), ("/deduplicated", True)}
    reconciled = pylota.reconciliation.marker.value
    assert reconciled is not None
    assert (reconciled.at, reconciled.equals) == ("/reconciled", True)
    assert pylota.lookup is not None
    assert pylota.lookup.words == {"unknown": "uncertain", "refused": "failed"}
    limits = [shape.code.one_of[0] for shape in rasket.shapes(AnswerClass.RATE_LIMITED) if shape.code]
    assert limits == ["rate_limit_exceeded", "daily_quota_exceeded"]


@pytest.mark.parametrize("name", contracts.names())
@pytest.mark.parametrize("kind", list(AnswerClass))
def test_every_class_can_be_answered_under_every_contract(name: str, kind: AnswerClass) -> None:
    told = render(contracts.load(name), kind, ids=("m1",))
    assert 200 <= told.status <= 599
    assert (told.status < 300) == (CUSTOMARY[kind] < 300)


def test_what_is_not_said_is_unknown() -> None:
    contract = contracts.load("universal")
    assert contract.concurrent.basis is Basis.UNKNOWN
    assert not contract.concurrent.judged
    assert contract.concurrent.permits("execute")


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("title:", "titel:"), 2, "titel: unknown key; did you mean 'title'?"),
        (("accepted:", "acepted:"), 5, "acepted"),
        (("{path: /send}", "{pth: /send}"), 3, "request.pth: unknown key; did you mean 'path'?"),
        (("status: 200", "status: good"), 5, "status"),
        (("title: Mine", "title: Mine\nduplicates: replayy"), 3, "duplicates"),
        (("title: Mine", "title: Mine\nkey: {at: 'heade:X'}"), 3, "is no place for a key"),
        (("title: Mine", "title: Mine\nkey: {presense: optional}"), 3, "did you mean 'presence'?"),
        (("title: Mine", "title: Mine\ntitle: Again"), 3, "'title' is given twice"),
        (("title: Mine", "title: 'Mine"), None, "is not valid YAML"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    change: tuple[str, str], line: int | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL.replace(*change))
    with pytest.raises(BadFileError) as caught:
        contracts.load(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}:{line}: " if line else f"{path}:")
    assert message in text
    assert "\n" not in text


def test_a_contract_without_a_success_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL.replace("accepted: {status: 200, id: /id}", "refused: {status: 422}"))
    with pytest.raises(BadFileError, match="answers: has no 'accepted'"):
        contracts.load(str(path))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("raskett", "did you mean 'rasket'?"), ("zzz", "shipped: acs-email, "), ("./none.yaml", "cannot be read")],
)
def test_an_unknown_contract_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(BadFileError, match=hint.replace("?", r"\?")):
        contracts.load(name)


def test_dialects_are_contracts_with_the_variables_that_point_at_them() -> None:
    resend = dialects.load("resend")
    assert resend.environment("http://x") == {"RESEND_BASE_URL": "http://x", "RESEND_API_URL": "http://x"}
    assert resend.contract.name == "resend"
    assert dialects.load("generic").any_path
    with pytest.raises(BadFileError, match=r"'resnd' is not a dialect; did you mean 'resend'\?"):
        dialects.load("resnd")
