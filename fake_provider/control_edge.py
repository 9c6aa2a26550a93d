"""The part of a control API that every wire has: faults that are put on it, looked at and let go.

What else a wire can be asked, its own control API adds as further routes. Everything that is given is checked; a
mistake is answered with 422 and one sentence that says what would have been right.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from sendtwice.fake_provider.contracts.model import AnswerClass
from sendtwice.fake_provider.control_answers import FIELDS, answer_fields
from sendtwice.fake_provider.control_input import BadInputError, body_of, count, is_number, near, number, text
from sendtwice.fake_provider.faults import ARGUMENT, GARBLES, STAGES, VERBS, Armed, Fault, Faults, Place, Verb
from sendtwice.fake_provider.messages import Request, Response
from sendtwice.fake_provider.watched import Watched

#: Answers one request; what it returns is JSON, or a whole response.
Handler = Callable[[Request], Any]
#: What :func:`awaited` reads of a query.
AWAITED = ("at_least", "exactly", "quiet_ms", "timeout")

_LOSE = ("before-answer", "first-byte", "in-body", "in-chunks")
#: What can be done to a message that is not complete; an answer is a bare status there.
_EARLY = (Verb.LOSE, Verb.HOLD, Verb.DELAY, Verb.RESET, Verb.CLOSE, Verb.ANSWER)
_LONGEST_WAIT = 600.0


class EdgeControl:
    """Answers what is asked under ``/_sendtwice/``."""

    #: By what a fault can be narrowed to some of the messages.
    narrows: ClassVar[tuple[str, ...]] = ("key", "to", "operation")
    #: Whether an answer can be named by its class: somebody has to know what it looks like.
    knows_classes: ClassVar[bool] = True

    def __init__(self, faults: Faults, edges: tuple[str, ...], routes: dict[str, dict[str, Handler]]) -> None:
        """Put faults on the wires of ``edges``, and answer ``routes`` too: by name and method."""
        self.faults = faults
        self._edges = edges
        self._armed: list[Armed] = []
        self._routes: dict[str, dict[str, Handler]] = {
            **routes,
            "faults": {"GET": self._list_faults, "POST": self._arm},
            "release": {"POST": self._release},
        }

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        name = "health" if request.path == "/healthz" else request.path.removeprefix("/_sendtwice/").rstrip("/")
        methods = self._routes.get(name)
        if methods is None:
            return Response.of(404, {"error": f"/_sendtwice/{name} does not exist; {near(name, self._routes)}"})
        handler = methods.get(request.method)
        if handler is None:
            allowed = ", ".join(methods)
            error = f"/_sendtwice/{name} takes {allowed}, not {request.method}"
            return Response.of(405, {"error": error}, {"Allow": allowed})
        try:
            result = handler(request)
            if asyncio.iscoroutine(result):
                result = await result
        except BadInputError as error:
            return Response.of(422, {"error": str(error)})
        return result if isinstance(result, Response) else Response.of(200, result)

    def forget_faults(self) -> None:
        """Take all faults away, and let go what they hold."""
        self.faults.withdraw_all()
        self._armed.clear()

    def labelled(self, label: str | None, among: list[Armed], what: str) -> list[Armed]:
        """Return the faults with a label."""
        labels = {armed.fault.label or "": armed for armed in among}
        if label is None or label not in labels:
            raise BadInputError(f"there is no {what} with label {label!r}; {near(label or '', labels)}")
        return [armed for armed in among if armed.fault.label == label]

    def _arm(self, request: Request) -> Response:
        known = ("crossing", "fault", "attempt", "nth", "times", *self.narrows, "stage", "label", *FIELDS)
        fault = self._fault(body_of(request, known))
        try:
            armed = self.faults.arm(fault)
        except ValueError as error:
            raise BadInputError(str(error)) from None
        self._armed.append(armed)
        return Response.of(201, _shown(armed))

    def _fault(self, given: dict[str, Any]) -> Fault:
        places = [str(place) for place in Place if place.partition(".")[0] in self._edges]
        if given.get("crossing") not in places:
            shown = given.get("crossing")
            raise BadInputError(f"crossing must be {' or '.join(places)} here, not {shown!r}{self._elsewhere(shown)}")
        place = Place(given["crossing"])
        verb, argument = self._verb(given.get("fault"))
        if verb not in VERBS[place]:
            raise BadInputError(f"{place} cannot be hit by {verb}; it knows: {', '.join(sorted(VERBS[place]))}")
        outward, asked = place.startswith("webhook."), place.endswith(".request")
        if (outward or asked) and verb is Verb.LOSE and argument is not None:
            raise BadInputError(f"{place} is lost as a whole; write lose without {argument!r}")
        if (outward or asked) and verb is Verb.CLOSE and argument is not None:
            raise BadInputError(f"there is no answer at {place}; write close without {argument!r}")
        if outward and verb is Verb.ANSWER and isinstance(argument, str):
            raise BadInputError(f"a gateway at {place} answers with a status, not with {argument!r}")
        stage = text(given, "stage")
        if stage is not None and outward:
            raise BadInputError(f"{place} has no stages; leave stage out")
        if stage is not None and (stage not in STAGES or not asked):
            raise BadInputError(f"stage must be {' or '.join(STAGES)}, at a request; leave it out otherwise")
        if stage is not None and (verb not in _EARLY or (verb is Verb.ANSWER and isinstance(argument, str))):
            raise BadInputError(f"at stage {stage} the message is not complete; use {', '.join(_EARLY)}")
        narrowed = [name for name in self.narrows if given.get(name) is not None]
        if stage is not None and narrowed:
            raise BadInputError(f"at stage {stage} nothing is known of a {narrowed[0]} yet; leave it out")
        if "attempt" in given and "nth" in given:
            raise BadInputError("attempt and nth mean the same; keep one")
        label = text(given, "label") or (str(argument) if verb is Verb.HOLD and argument is not None else None)
        more: dict[str, Any] = {name: text(given, name) for name in self.narrows}
        more |= answer_fields(given, place, verb, stage)
        return Fault(
            place,
            verb,
            None if verb is Verb.HOLD else argument,
            nth=count(given, "attempt" if "attempt" in given else "nth"),
            times=count(given, "times"),
            stage=stage,
            label=label or f"fault-{len(self._armed) + 1}",
            **more,
        )

    def _elsewhere(self, place: Any) -> str:
        """Say where a crossing that is not here may be found."""
        del place
        return ""

    def _list_faults(self, _: Request) -> dict[str, Any]:
        return {"faults": [_shown(armed) for armed in self._armed], "count": len(self._armed)}

    def _release(self, request: Request) -> dict[str, Any]:
        label = text(body_of(request, ("label",)), "label")
        holds = [armed for armed in self._armed if armed.fault.verb is Verb.HOLD]
        released = self.labelled(label, holds, "hold")
        for armed in released:
            self.faults.withdraw(armed)
        return {"label": label, "released": sum(armed.fired for armed in released)}

    def _verb(self, given: Any) -> tuple[Verb, str | float | None]:
        """Read ``lose`` or ``{delay: 2}``."""
        name, argument = next(iter(given.items())) if isinstance(given, dict) and len(given) == 1 else (given, None)
        if not isinstance(name, str) or name not in set(Verb):
            hint = near(str(name), list(Verb))
            raise BadInputError(f'fault must be a verb, or a verb with its argument as {{"delay": 2}}; {hint}')
        verb = Verb(name)
        match verb:
            case Verb.DELAY | Verb.DRIP:
                right = is_number(argument) and argument >= 0
            case Verb.CUT:
                right = isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0
            case Verb.LOSE:
                right = argument is None or argument in _LOSE
            case Verb.CLOSE:
                right = argument in (None, "after-answer")
            case Verb.GARBLE:
                right = argument in GARBLES
            case Verb.HOLD:
                right = argument is None or isinstance(argument, str)
            case Verb.ANSWER:
                right = self._is_answer(argument)
            case _:
                right = argument is None
        if not right:
            takes = ARGUMENT[verb] if verb is not Verb.ANSWER or self.knows_classes else "a status from 200 to 599"
            raise BadInputError(f"{verb} takes {takes}, not {argument!r}")
        return verb, argument

    def _is_answer(self, argument: Any) -> bool:
        if isinstance(argument, int) and not isinstance(argument, bool):
            return 200 <= argument <= 599
        if not self.knows_classes or not isinstance(argument, str):
            return False
        if argument not in set(AnswerClass):
            raise BadInputError(f"{argument!r} is no class of answer; {near(argument, list(AnswerClass))}")
        return True


async def awaited(query: dict[str, str], watched: Watched, found: Callable[[], int]) -> bool:
    """Wait until so many are found as a query asks for, and then for quiet; never by polling. False: it gave up."""
    if "at_least" in query and "exactly" in query:
        raise BadInputError("at_least and exactly cannot both be given; keep one")
    exactly = int(number(query, "exactly", -1, whole=True))
    wanted = exactly if "exactly" in query else int(number(query, "at_least", 1, whole=True))
    # To say that there are exactly n needs a look at what comes after them.
    quiet = number(query, "quiet_ms", 200 if "exactly" in query else 0) / 1000
    timeout = min(number(query, "timeout", 10), _LONGEST_WAIT)
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    met = await watched.wait(lambda: found() >= wanted, timeout=timeout)
    while met and quiet > 0:
        seen = found()
        if "exactly" in query and seen > wanted:
            break
        left = until - loop.time()
        if not await _more(watched, found, seen, min(quiet, left)):
            met = left >= quiet
            break
    return met and (found() == wanted if "exactly" in query else found() >= wanted)


async def _more(watched: Watched, found: Callable[[], int], seen: int, within: float) -> bool:
    return await watched.wait(lambda: found() > seen, timeout=max(within, 0))


def description() -> dict[str, Any]:
    """Return the description of the fake provider's control API, of which other edges' is a part."""
    described = Path(__file__).with_name("control.openapi.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(described)
    return document


def _shown(armed: Armed) -> dict[str, Any]:
    return {
        "fault": str(armed.fault),
        "label": armed.fault.label,
        "met": armed.met,
        "fired": armed.fired,
    }
