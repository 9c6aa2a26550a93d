"""``--junit``: one test case for each scenario, for the CI systems that draw them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from sendtwice.fake_provider.contracts import Level
from sendtwice.harness.events import RunEnded, RunEvent
from sendtwice.harness.redact import Redactor
from sendtwice.harness.report import timeline
from sendtwice.harness.report.files import write_text
from sendtwice.harness.result import RunResult, ScenarioResult, Verdict

#: XML 1.0 has no place for these, escaped or not.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnitFile:
    """Writes the result as JUnit XML."""

    def __init__(self, path: Path, redactor: Redactor, *, require_all: bool = False) -> None:
        """Write to ``path`` at the end; with ``require_all`` a scenario that says nothing is a failure."""
        self._path, self._redactor, self._require_all = path, redactor, require_all

    def __call__(self, event: RunEvent) -> None:
        """Wait for the end of the run."""
        if isinstance(event, RunEnded):
            write_text(self._path, self.text(event.result))

    def text(self, result: RunResult) -> str:
        """Return the document."""
        cases = [self._case(scenario) for scenario in result.scenarios]
        if result.error is not None:
            case = ET.Element("testcase", classname="sendtwice", name="run", time="0")
            self._say(case, "error", result.error, result.error, "error")
            cases.append(case)
        suite = ET.Element(
            "testsuite",
            name=self._clean(f"sendtwice {result.target}"),
            tests=str(len(cases)),
            failures=str(sum(case.find("failure") is not None for case in cases)),
            errors=str(sum(case.find("error") is not None for case in cases)),
            skipped=str(sum(case.find("skipped") is not None for case in cases)),
            time=f"{result.seconds:.3f}",
            timestamp=self._clean(result.started),
        )
        properties = ET.SubElement(suite, "properties")
        facts = {
            "sendtwice": result.version,
            "role": result.role,
            "contract": result.contract,
            "contract_sha256": result.contract_sha256,
            "seed": str(result.seed),
        }
        for name, value in facts.items():
            ET.SubElement(properties, "property", name=name, value=self._clean(value))
        suite.extend(cases)
        suites = ET.Element("testsuites", dict(suite.attrib))
        suites.append(suite)
        ET.indent(suites)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"

    def _case(self, scenario: ScenarioResult) -> ET.Element:
        case = ET.Element(
            "testcase",
            classname=f"sendtwice.{scenario.id.partition('.')[0]}",
            name=self._clean(scenario.id),
            time=f"{scenario.seconds:.3f}",
        )
        reason = scenario.reason or ""
        match scenario.verdict:
            case Verdict.FAILED:
                finding = next((f for f in scenario.findings if f.level is Level.MUST), None)
                message = finding.message if finding else reason or "failed"
                self._say(case, "failure", message, self._evidence(scenario), finding.rule if finding else "failed")
            case Verdict.SKIPPED | Verdict.INCONCLUSIVE:
                message = f"{scenario.verdict.value}: {reason or '; '.join(scenario.needs) or 'no reason given'}"
                self._say(case, "failure" if self._require_all else "skipped", message, "", scenario.verdict.value)
            case Verdict.KNOWN:
                message = f"known: {'; '.join(scenario.known) or reason}"
                self._say(case, "skipped", message, "", "known")
            case Verdict.PASSED if scenario.findings:
                ET.SubElement(case, "system-out").text = self._clean(self._evidence(scenario))
            case _:
                pass
        return case

    def _say(self, case: ET.Element, tag: str, message: str, text: str, kind: str) -> None:
        element = ET.SubElement(case, tag, message=self._clean(message), type=kind)
        if text:
            element.text = self._clean(text)

    def _evidence(self, scenario: ScenarioResult) -> str:
        lines = [scenario.title]
        for finding in scenario.findings:
            lines += [
                f"{finding.rule} ({finding.level.value}): {finding.message}",
                f"  remedy: {finding.remedy}",
            ]
        lines += [f"deliveries of {operation}: {count}" for operation, count in scenario.deliveries.items()]
        cited = {seq for finding in scenario.findings for seq in finding.events}
        lines += timeline.as_text(timeline.timeline(scenario.history, cited))
        lines += [f"replay: sendtwice replay {scenario.replay}"] if scenario.replay else []
        return "\n".join(lines)

    def _clean(self, text: str) -> str:
        return _NOT_XML.sub("\ufffd", self._redactor.text(text))
