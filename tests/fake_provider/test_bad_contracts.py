"""Contract files with mistakes: one line with the file, its line, the place in it, what is wrong, and the remedy."""

from pathlib import Path

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.documents import BadFileError

PARTS = {
    "name": "name: mine",
    "title": "title: Mine",
    "request": "request: {path: /send}",
    "answers": "answers: {accepted: {status: 200, id: /id}}",
}

#: What is wrong, and how it is told. The mistake stands in line 5, below the parts that a contract needs.
MISTAKES = [
    # wrong kinds of value
    ("key: {max: many}", "key.max: input should be a whole number, not 'many'"),
    ("key: {max: 1.5}", "key.max: input should be a whole number, not 1.5"),
    ("key: {max: -1}", "key.max: input should be greater than or equal to 0, not -1"),
    ("key: {max: [1]}", "key.max: input should be a whole number"),
    ("key: header:X", "key: input should be a mapping, not 'header:X'"),
    ("fingerprint: [body]", "fingerprint: input should be a mapping"),
    ("scope: tenant", "scope: input should be a list, not 'tenant'; write [tenant]"),
    ("fingerprint: {parts: body}", "fingerprint.parts: input should be a list, not 'body'; write [body]"),
    (
        "fingerprint: {fields: [to]}",
        "fingerprint.fields.0: input should be a JSON Pointer, which starts with /, not 'to'",
    ),
    ("events: {id: event_id}", "events.id: input should be a JSON Pointer, which starts with /, not 'event_id'"),
    ("source: 5", "source: input should be a text, not 5; put it in quotes"),
    ("as_of: 2026-10-01", "as_of: input should be a text; put it in quotes"),
    ("lease: soon", "lease: input should be a number, not 'soon'"),
    ("lease: .inf", "lease: input should be a finite number, not inf"),
    ("lease: {value: soon}", "lease.value: input should be a number, not 'soon'"),
    ("retention: 86400", "retention: input should be a mapping, not 86400"),
    ("retention: {at_least: one day}", "retention.at_least: input should be a number, not 'one day'"),
    ("approval: true", "approval: input should be a mapping, not True"),
    ("concurrent:", "concurrent: is empty; write its value, or unknown"),
    # values that no claim has
    ("duplicates: replays", "not 'replays'; did you mean 'replay'?"),
    (
        "outcomes: {invalid: store}",
        "outcomes.invalid: input should be 'stored', 'released', 'kept' or 'poisoned', not 'store'",
    ),
    ("scope: [tenant, tennant]", "scope.1: input should be "),
    ("reconciliation: {by: [sendr]}", "reconciliation.by.0: input should be 'sender', "),
    ("order: [auth, ratelimit]", "not 'ratelimit'; did you mean 'rate_limit'?"),
    ("hints: {retry_after: [busy]}", "hints.retry_after.0: input should be 'accepted', "),
    ("levels: {conflict: shud}", "levels.conflict: input should be 'must', 'should', 'hole' or 'observe', not 'shud'"),
    # names that no group has
    ("unknwon: 1", "unknwon: unknown key; known here: answers, approval, "),
    ("lease: {last: 5}", "lease.last: unknown key; did you mean 'lasts'?"),
    ("retention: {form: completion}", "retention.form: unknown key; did you mean 'from'?"),
    ("replay: {mark: x}", "replay.mark: unknown key; did you mean 'marker'?"),
    ("outcomes: {timeout: stored}", "outcomes.timeout: unknown key; known here: crash, disconnect, "),
    ("hints: {retry_afer: []}", "hints.retry_afer: unknown key; did you mean 'retry_after'?"),
    ("approval: {own_kee: refused}", "approval.own_kee: unknown key; did you mean 'own_key'?"),
    ("resends: {cal: x}", "resends.cal: unknown key; did you mean 'call'?"),
    # claims in their long form
    ("duplicates: {vlaue: replay}", "duplicates.vlaue: unknown key; did you mean 'value'?"),
    ("lease: {lasts: {vlaue: 5}}", "lease.lasts.vlaue: unknown key; did you mean 'value'?"),
    ("lease: {value: 5, nte: x}", "lease.nte: unknown key; did you mean 'note'?"),
    ("duplicates: {value: replay, bsis: observed}", "duplicates.bsis: unknown key; did you mean 'basis'?"),
    ("duplicates: {value: replay, basis: seen}", "duplicates.basis: input should be 'documented', "),
    (
        "duplicates: {value: replay, also: refuse}",
        "duplicates.also: input should be a list, not 'refuse'; write [refuse]",
    ),
    ("duplicates: {value: replay, also: [refus]}", "duplicates.also.0: input should be 'replay', "),
    ("duplicates: {also: [refuse]}", "duplicates: has no 'value'; add it"),
    ("scope: {parts: [tenant]}", "scope: input should be a list"),
    # places
    ("key: {at: Idempotency-Key}", "key.at: 'Idempotency-Key' is no place for a key; write header:NAME, "),
    ("key: {also_at: [X]}", "key.also_at: 'X' is no place for a key"),
    ("key: {first_sent: {window: 5}}", "key.first_sent.at: is missing; add it"),
    ("replay: {marker: {header: X, is: '1'}}", "replay.marker: input should be a list; make it an item of one"),
    ("replay: {marker: [{header: X}]}", "replay.marker.0.is: is missing; add it"),
    ("replay: {marker: [{is: '1'}]}", "replay.marker.0: a marker is either a header or a field of the body"),
    ("reconciliation: {marker: {is: true}}", "reconciliation.marker: a marker is either a header or a field"),
    # routes
    ("routes: {other: {}}", "routes.other.path: is missing; add it"),
    ("routes: {other: /o}", "routes.other: input should be a mapping, not '/o'"),
    ("routes: {other: {path: other}}", "routes.other.path: 'other' is no path; write one that starts with /"),
    ("routes: {other: {path: /o, does: sends}}", "not 'sends'; did you mean 'send'?"),
    ("routes: {other: {path: /o, key_at: X}}", "routes.other.key_at: 'X' is no place for a key"),
    ("routes: {other: {path: /o, anwers: {}}}", "routes.other.anwers: unknown key; did you mean 'answers'?"),
    ("routes: {send: {path: /o}}", "routes: has a route 'send', which is the name of request; give it another name"),
    ("batch: {max: 10}", "batch: batch.route is 'batch', and routes has none of that name; add it"),
    ("batch: {route: btach}", "batch.route: is 'btach', and routes has none of that name; add it"),
    # what does not go together
    ("retention: {at_least: 2, at_most: 1}", "retention.at_least: is 2 and at_most 1; a floor lies below its ceiling"),
    # answers
    ("answers: {refused: {status: 422}}", "answers: has no 'accepted'; say how a first successful send is answered"),
    ("answers: {accepted: 200}", "answers.accepted: input should be a mapping, not 200"),
    ("answers: {accepted: {}}", "answers.accepted.status: is missing; add it"),
    ("answers: {acepted: {status: 200}}", "not 'acepted'; did you mean 'accepted'?"),
    (
        "answers: {accepted: {status: 99}}",
        "answers.accepted.status: input should be greater than or equal to 200, or '2xx', ",
    ),
    (
        "answers: {accepted: {status: [200, 6xx]}}",
        "answers.accepted.status.1: input should be a whole number, or '2xx', ",
    ),
    ("answers: {accepted: {status: 200, code: {at: /c}}}", "answers.accepted.code.is: is missing; add it"),
    (
        "answers: {accepted: {status: 200, code: {at: c, is: x}}}",
        "answers.accepted.code.at: input should be a JSON Pointer",
    ),
    ("answers: {accepted: {status: 200, cod: x}}", "answers.accepted.cod: unknown key; did you mean 'code'?"),
    # extending
    ("extends: rassket", "extends: 'rassket' is not a shipped contract; did you mean 'rasket'?"),
    ("extends: 5", "extends: write the name of a shipped contract"),
    ("extends: nowhere.yaml", "extends: 'nowhere.yaml' does not exist"),
    ("extends: mine.yaml", "extends: the contract extends itself"),
]


def told(path: Path) -> str:
    with pytest.raises(BadFileError) as caught:
        contracts.load(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("mistake", "said"), MISTAKES, ids=[mistake for mistake, _ in MISTAKES])
def test_a_mistake_in_a_contract_is_told_with_its_line_place_and_remedy(
    mistake: str, said: str, tmp_path: Path
) -> None:
    rest = [part if not mistake.startswith(f"{name}:") else "" for name, part in PARTS.items()]
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join([*rest, mistake, ""]))
    line = told(path)
    assert line.startswith(f"{path}:5: "), line
    assert said in line


@pytest.mark.parametrize("basis", ["documented", "observed", "unknown"])
def test_a_claim_of_every_basis_has_its_value_looked_at(basis: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join([*PARTS.values(), f"concurrent: {{basis: {basis}, value: refuze}}", ""]))
    assert "concurrent.value: input should be 'refuse', 'wait' or 'execute', not 'refuze'" in told(path)


def test_a_mistake_in_what_a_contract_extends_is_told_with_that_file(tmp_path: Path) -> None:
    base, mine = tmp_path / "base.yaml", tmp_path / "mine.yaml"
    base.write_text("\n".join([*PARTS.values(), "key: {mx: 5}", ""]))
    mine.write_text("name: mine\nextends: base.yaml\nkey: {min: 1}\n")
    assert told(mine).startswith(f"{base}:5: key.mx: unknown key; did you mean 'max'?")
