"""What a failing test says: the broken promise, the timeline that proves it, the remedy; nothing of the harness."""

from __future__ import annotations

import io
import traceback
from collections.abc import Sequence

from sendtwice.harness.redact import Redactor
from sendtwice.harness.report import blocks
from sendtwice.harness.report.console import Console
from sendtwice.harness.result import ScenarioResult
from sendtwice.harness.testing.performing import Raised

#: More exceptions than this say nothing new.
_MOST = 5


def failure(result: ScenarioResult, raised: Sequence[Raised], *, color: bool) -> str:
    """Return the text of a failed scenario; its first line says it all."""
    stream = io.StringIO()
    Console(Redactor(set()), stream=stream, color="always" if color else "never", width=100).failure(
        result, replay=False
    )
    rules = ", ".join(dict.fromkeys(finding.rule for finding in result.broken))
    first = f"{result.id}: {blocks.reason(result)}" + (f" [{rules}]" if rules else "")
    return "\n".join([first, *stream.getvalue().rstrip().splitlines(), *_of_exceptions(raised)])


def _of_exceptions(raised: Sequence[Raised]) -> list[str]:
    """Return what the callable raised, and what that was taken for."""
    lines = []
    for one in raised[:_MOST]:
        where = traceback.extract_tb(one.error.__traceback__)
        place = f" at {where[-1].filename}:{where[-1].lineno}" if where else ""
        text = " ".join(str(one.error).split())
        lines.append(f"  raised             {type(one.error).__name__}: {text}{place}, taken as {one.told}")
    if lines:
        lines.append('                     other meanings: @pytest.mark.sendtwice(told={TheError: "unknown"})')
    return lines
