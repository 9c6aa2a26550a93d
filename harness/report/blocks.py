"""What a report says about a scenario or a run, as plain data for whoever prints it. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.history import Kind
from sendtwice.harness.judge import RULES, Finding
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict

_ACCEPTED = {"accepted", "replayed", "duplicate"}
_REFUSED = {"refused", "failed", "conflict", "key_missing", "key_invalid", "unauthorized", "rate_limited"}
_RANK = {rule: number for number, rule in enumerate(RULES)}


def worst(result: RunResult) -> ScenarioResult | None:
    """Return the failure to look at first: a second mail before a lost one, then the shortest story."""
    failed = [s for s in result.scenarios if s.verdict is Verdict.FAILED]
    return min(failed, key=badness, default=None)


def badness(scenario: ScenarioResult) -> tuple[int, int, int]:
    """Return the order of failures: by rule, then the shortest story."""
    must = list(scenario.broken)
    # A scenario without a finding failed because all were required.
    if not must:
        return (1, 0, 0)
    return (0, min(_RANK.get(f.rule, len(_RANK)) for f in must), len(scenario.history))


def reason(scenario: ScenarioResult) -> str:
    """Return in one sentence why a scenario has its verdict."""
    if scenario.verdict is Verdict.KNOWN:
        return "; ".join(scenario.known) or scenario.reason or "an accepted deviation"
    if scenario.verdict is Verdict.FAILED:
        must = list(scenario.broken)
        return must[0].message if must else scenario.reason or "failed"
    if scenario.verdict is Verdict.PASSED:
        return ""
    return scenario.reason or "; ".join(scenario.needs) or "no reason is given"


def told_and_delivered(scenario: ScenarioResult) -> list[tuple[str, str]]:
    """Return for each operation which cell of (what the caller was told) x (what was delivered) it is in."""
    operation_of = {e.attempt: e.operation for e in scenario.history if e.kind is Kind.ATTEMPT}
    classes: dict[str, list[set[str]]] = defaultdict(list)
    for attempt, names in scenario.answers.items():
        known = {name for group in scenario.deliveries for name in group.split(", ")}
        operation = operation_of.get(attempt) or (attempt if attempt in known else None)
        if operation is not None:
            classes[operation].append(set(names))
    said = {e.operation: str(e.data.get("told")) for e in scenario.history if e.kind is Kind.TOLD}
    cells = []
    for operation, count in scenario.deliveries.items():
        answers = [told for name in operation.split(", ") for told in classes.get(name, [])]  # a group, by its total
        told = _told(answers, said.get(operation))
        missing = "not delivered" if told in ("refused", "failed") else "never delivered"
        cells.append((operation, f"{told} / {_delivered(count) if count else missing}"))
    return cells


def _told(answers: Sequence[set[str]], said: str | None) -> str:
    if said is not None:
        return {"sent": "accepted", "not_sent": "refused"}.get(said, "unknown")
    if any(names and names <= _ACCEPTED for names in answers):
        return "accepted"
    if any(names & _ACCEPTED for names in answers):
        return "perhaps accepted"
    if any("pending" in names for names in answers):
        return "pending"
    # A 502 that may be a failure or an unknown outcome is no refusal: the mail may be out.
    if answers and all(names and names <= _REFUSED for names in answers):
        return "failed" if all(names == {"failed"} for names in answers) else "refused"
    return "told nothing for certain"


def _delivered(count: int) -> str:
    return "delivered" if count == 1 else f"delivered {count} times"


def replay_command(scenario: ScenarioResult, target: str | None) -> str:
    """Return the one command that plays a failure again."""
    words = ["sendtwice", "replay", scenario.replay] if scenario.replay else ["sendtwice", "run"]
    words += [target] if target else []
    words += [] if scenario.replay else ["--scenario", scenario.id]
    return shlex.join(words)


def grouped(scenarios: Iterable[ScenarioResult]) -> list[tuple[str, list[str]]]:
    """Return reasons, the most frequent first, each with the scenarios that have it."""
    found: dict[str, list[str]] = defaultdict(list)
    for scenario in scenarios:
        found["; ".join(scenario.needs) or reason(scenario)].append(scenario.id)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def weaker_findings(result: RunResult, *levels: Level) -> list[tuple[Finding, list[str]]]:
    """Return findings that fail nothing, each message once with the scenarios that show it."""
    found: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for scenario in result.scenarios:
        for finding in scenario.findings:
            if finding.level in levels:
                kept = found.setdefault((finding.rule, finding.message), (finding, []))
                if scenario.id not in kept[1]:
                    kept[1].append(scenario.id)
    return list(found.values())


def watched_note(result: RunResult) -> str | None:
    """Return for how long a pass holds, where the target file does not say how long it sends again."""
    if result.retries_declared or result.role == "client" or not result.counts["passed"]:
        return None
    if result.error is not None and not result.watched:
        return None  # it never came to the watch, so nothing can be said of later mails
    return (
        f"A pass means: no second mail within {result.watched:.1f} s. The target file does not say how long "
        "it sends again by itself; set target.timing.retries_for (0 if it never does), and later mails are "
        "waited for."
    )


def counts(result: RunResult) -> str:
    """Return the counts in one line: ``2 failed, 20 passed, 3 skipped``."""
    order = ("failed", "inconclusive", "known", "passed", "skipped")
    found = [f"{result.counts[name]} {name}" for name in order if result.counts[name]]
    return ", ".join(found) or "nothing was played"


def duration(seconds: float) -> str:
    """Return seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"
