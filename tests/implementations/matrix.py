"""The published matrix, from results of `sendtwice run --json`: one column a library, one row a scenario.

    matrix.py RESULT.json...                        prints the table
    matrix.py --into README.md RESULT.json...       puts it between that file's two marks

Several results of one library are several runs of it: what only some of them found is counted. The same results
give the same bytes, in whatever order they are named.
"""

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

START, END = "<!-- matrix: tests/implementations/matrix.py -->", "<!-- end of matrix -->"


def cell(scenarios):
    """One scenario of one library, in all its runs."""
    words = Counter(_words(scenario) for scenario in scenarios)
    if len(words) == 1:
        return next(iter(words))
    return "; ".join(f"{text} ({n} of {len(scenarios)} runs)" for text, n in sorted(words.items()))


def _words(scenario):
    verdict = scenario["verdict"]
    rules = {level: [] for level in ("must", "should", "hole")}
    for finding in scenario["findings"]:
        if finding["rule"] not in rules.setdefault(finding["level"], []):
            rules[finding["level"]].append(finding["rule"])
    text = f"**{verdict}**: {', '.join(sorted(rules['must']))}" if rules["must"] else verdict
    notes = [f"{level}: {', '.join(sorted(rules[level]))}" for level in ("should", "hole") if rules[level]]
    return "; ".join([text, *notes])


def table(results):
    """The matrix in Markdown, with what nobody could play below it."""
    runs = defaultdict(list)
    for result in results:
        runs[result["target"]].append(result)
    names = sorted(runs)
    cells = defaultdict(lambda: defaultdict(list))
    for name in names:
        for result in runs[name]:
            if result["error"] is not None:
                raise SystemExit(f"matrix.py: a run of {name} has no result: {result['error']}")
            for scenario in result["scenarios"]:
                cells[scenario["id"]][name].append(scenario)

    lines = ["| scenario | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    skipped = defaultdict(list)
    for scenario in sorted(cells):
        every = [s for name in names for s in cells[scenario][name]]
        if all(s["verdict"] == "skipped" for s in every):
            for reason in sorted({s["reason"] for s in every}):
                skipped[reason].append(scenario)
            continue
        row = [cell(cells[scenario][name]) if cells[scenario][name] else "" for name in names]
        lines.append(f"| {scenario} | " + " | ".join(row) + " |")
    lines += ["", "Not played with any of them:", ""]
    lines += [f"- {', '.join(scenarios)}: {reason}" for reason, scenarios in sorted(skipped.items())]
    return "\n".join(lines)


def facts(results):
    """What was run, in one line."""
    parts = {(r["sendtwice"], r["contract"], r["contract_sha256"][:12]) for r in results}
    counts = Counter(r["target"] for r in results)
    runs = (
        f"{min(counts.values())} to {max(counts.values())}" if len(set(counts.values())) > 1 else max(counts.values())
    )
    tools = "; ".join(f"sendtwice {tool}, contract {name} (sha256 {sha}...)" for tool, name, sha in sorted(parts))
    return f"{tools}; runs of each library: {runs}."


def main():
    """Print the matrix, or put it into a file."""
    parser = argparse.ArgumentParser(description="The matrix of implementations and scenarios, in Markdown.")
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")
    parser.add_argument("--into", type=Path, metavar="FILE", help="replace what stands between its two marks")
    given = parser.parse_args()
    results = [json.loads(path.read_text("utf-8")) for path in given.results]
    text = f"{facts(results)}\n\n{table(results)}"
    if given.into is None:
        print(text)
        return
    page = given.into.read_text("utf-8")
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"matrix.py: {given.into} lacks the marks {START} and {END}")
    given.into.write_text(f"{before}{START}\n{text}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
