"""The published table of callers and faults, from runs of `sendtwice run --report DIR --json DIR/result.json`.

    report.py DIR...                    prints a table for each family of callers
    report.py --into PAGE.md DIR...     puts them between that page's two marks

A cell is what the caller did on the wire, what it said, and what was delivered. Several runs of one caller are laid on
top of one another: what only some of them did is counted. The same runs give the same bytes, in whatever order.
"""

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

START, END = "<!-- table: tests/implementations/callers/report.py -->", "<!-- end of table -->"
FAMILIES = {"resend": "Resend's SDKs", "stripe": "Stripe's SDKs", "httpx": "Plain HTTP, Python", "": "Plain HTTP, Node"}
NUMBERS = ("no key", "one key")
WORDS = {"sent": "sent", "not_sent": "not sent", "unknown": "unknown", "undeclared": "no word"}


def read(folder):
    """One run: its result, and the events of each scenario."""
    result = json.loads((folder / "result.json").read_text("utf-8"))
    if result["error"] is not None:
        raise SystemExit(f"report.py: {folder} has no result: {result['error']}")
    newest = max((path.parent for path in folder.glob("*/*.history.jsonl")), key=lambda path: path.name)
    events = {
        path.name.removesuffix(".history.jsonl"): [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in newest.glob("*.history.jsonl")
    }
    return result, events


def cell(scenario, events):
    """What one caller did in one scenario, in a few words."""
    if scenario["verdict"] == "skipped":
        return "skipped"
    text = f"{_wire(events)} → {_told(events)} / {_mails(scenario)}"
    rules = {
        level: sorted({f["rule"] for f in scenario["findings"] if f["level"] == level}) for level in ("must", "should")
    }
    notes = [f"**{rule}**" for rule in rules["must"]] + [f"*{rule}*" for rule in rules["should"]]
    if scenario["verdict"] == "inconclusive":
        notes.append("not shown")
    return "; ".join([text, *notes])


def _wire(events):
    """How many attempts, under how many keys, and whether the bytes under each key were the same."""
    attempts = [e for e in events if e["kind"] == "attempt"]
    if not attempts:
        return "0"
    keys = {e["data"]["key"] for e in attempts if e["data"].get("key") is not None}
    bodies = defaultdict(set)
    for e in attempts:
        bodies[e["data"].get("key")].add(e["data"]["content"])
    words = [str(len(attempts)), NUMBERS[len(keys)] if len(keys) < len(NUMBERS) else f"{len(keys)} keys"]
    if any(key is not None and len(each) > 1 for key, each in bodies.items()):
        words.append("other bytes")
    return ", ".join(words)


def _told(events):
    """What it said each time it was asked; it says nothing when it is killed, or ended by a signal."""
    told = {(e["operation"], e["attempt"]): e["data"]["told"] for e in events if e["kind"] == "told"}
    asked = [(e["operation"], e["attempt"]) for e in events if e["kind"] == "asked"]
    return ", ".join(WORDS.get(told.get(ask), "killed") for ask in asked) or "nothing"


def _mails(scenario):
    """How many mails were delivered, by operation; bold where that is one too many."""
    twice = any(finding["rule"].startswith("at-most-once") for finding in scenario["findings"])
    return " and ".join(f"**{n}**" if twice and n > 1 else str(n) for n in scenario["deliveries"].values()) or "0"


def table(runs, names):
    """Callers of one family, side by side."""
    cells = defaultdict(lambda: defaultdict(list))
    for name in names:
        for result, events in runs[name]:
            for scenario in result["scenarios"]:
                cells[scenario["id"]][name].append(cell(scenario, events.get(scenario["id"], [])))
    lines = ["| fault | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for scenario in sorted(cells):
        row = [_laid(cells[scenario][name]) for name in names]
        if set(row) != {"skipped"}:
            lines.append(f"| {scenario.removeprefix('client.')} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def _laid(texts):
    found = Counter(texts)
    if len(found) == 1:
        return next(iter(found))
    return " or ".join(f"{text} ({n} of {len(texts)})" for text, n in sorted(found.items()))


def page(folders):
    """All tables, with what was run above them."""
    runs = defaultdict(list)
    for result, events in map(read, folders):
        runs[result["target"]].append((result, events))
    families = defaultdict(list)
    for name in sorted(runs):
        families[next(start for start in FAMILIES if name.startswith(start))].append(name)
    tools = sorted({(r["sendtwice"], r["contract"], r["contract_sha256"][:12]) for of in runs.values() for r, _ in of})
    counts = sorted({len(of) for of in runs.values()})
    facts = "; ".join(f"sendtwice {tool}, contract {name} (sha256 {sha}...)" for tool, name, sha in tools)
    parts = [f"{facts}; runs of each caller: {' to '.join(map(str, counts))}."]
    for start, title in FAMILIES.items():
        if families[start]:
            parts += [f"### {title}", table(runs, families[start])]
    return "\n\n".join(parts)


def main():
    """Print the tables, or put them into a page."""
    parser = argparse.ArgumentParser(description="The table of callers and faults, in Markdown.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--into", type=Path, metavar="PAGE.md", help="replace what stands between its two marks")
    given = parser.parse_args()
    text = page(sorted(given.runs))
    if given.into is None:
        print(text)
        return
    whole = given.into.read_text("utf-8")
    before, start, rest = whole.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"report.py: {given.into} lacks the marks {START} and {END}")
    given.into.write_text(f"{before}{START}\n{text}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
