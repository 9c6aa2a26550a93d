"""The answers of a contract, as OpenAPI describes them: every status, with what it may say.

One status may tell several things, so its body is one of several. Beside the classes that the contract declares there
is what the emulator says by itself: that there is no such message, or no such fault address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass, AnswerShape, Contract, Marker, Route
from sendtwice.fake_provider.emulator import pointers
from sendtwice.fake_provider.emulator.answers import CUSTOMARY, POSITIVE
from sendtwice.fake_provider.emulator.events import Telling
from sendtwice.fake_provider.emulator.keys import use_of
from sendtwice.fake_provider.emulator.records import State
from sendtwice.fake_provider.openapi_requests import JSON, MAILS, STEP, is_batch
from sendtwice.fake_provider.openapi_schemas import FILLED, TEXT, Schema, any_of, optional, require

_HUNDREDS = {"2xx": 200, "3xx": 303, "4xx": 400, "5xx": 503}

#: What each class tells, for people.
_TELLS = {
    AnswerClass.ACCEPTED: "The first answer.",
    AnswerClass.REPLAYED: "The answer to a repeat.",
    AnswerClass.DUPLICATE: "The key was used before.",
    AnswerClass.PENDING: "It waits for a person.",
    AnswerClass.CONFLICT: "The key was used with another request.",
    AnswerClass.IN_PROGRESS: "The first request with this key is still running.",
    AnswerClass.UNKNOWN: "Whether the mail was sent is not known.",
    AnswerClass.REFUSED: "The request was refused.",
    AnswerClass.FAILED: "Nothing was sent; try again.",
    AnswerClass.KEY_MISSING: "The key is missing.",
    AnswerClass.KEY_INVALID: "The key is not valid.",
    AnswerClass.EXPIRED: "The time of this key is over.",
    AnswerClass.UNAUTHORIZED: "The credential is not enough.",
    AnswerClass.RATE_LIMITED: "Too many requests.",
}


#: What the emulator says of itself, with no code of the vendor's.
_OWN: Schema = {"type": "object", "properties": {"message": FILLED}, "required": ["message"]}
_EVENT_TAKEN: Schema = {
    "type": "object",
    "properties": {"received": {"const": True}, "matched": {"type": ["string", "null"]}},
    "required": ["received", "matched"],
}


@dataclass(frozen=True, slots=True)
class _Said:
    """One thing that a status may tell."""

    kind: AnswerClass
    shape: AnswerShape


class _Answers:
    """The answers of one route."""

    def __init__(self, contract: Contract, name: str, route: Route) -> None:
        self.contract, self.name, self.route = contract, name, route
        self.use = use_of(contract, name)
        self.batch = is_batch(contract, name, route)
        self.listed = route.does == "read" and STEP.search(route.path) is None
        telling = Telling(contract)
        self.words: Schema = {"enum": list(dict.fromkeys(telling.word(state) for state in State))}

    def said(self) -> dict[int, list[_Said]]:
        """Return what each status may tell, of what the contract declares."""
        found: dict[int, list[_Said]] = {}
        for kind in self._kinds():
            for shape in self.contract.shapes(kind, self.name) or [AnswerShape(status=[CUSTOMARY[kind]])]:
                for status in dict.fromkeys(_status(kind, pattern) for pattern in shape.status):
                    found.setdefault(status, []).append(_Said(kind, shape))
        for status, kind in self._moreover():
            found.setdefault(status, []).append(_Said(kind, self._like(kind, status)))
        return found

    def own(self) -> set[int]:
        """Return the statuses with which the emulator speaks of itself."""
        unguarded = self.use == "ignored" and self.contract.key.foreign.played("ignored") == "refused"
        # 422: a fault address that is none.
        return ({422} if self.route.does in MAILS else set()) | ({501} if unguarded else set())

    def _kinds(self) -> list[AnswerClass]:
        """Return the classes of answer that the route can give."""
        contract, route = self.contract, self.route
        found = {AnswerClass.ACCEPTED, AnswerClass.REFUSED, AnswerClass.UNAUTHORIZED, AnswerClass.RATE_LIMITED}
        if self.use != "ignored":
            found |= {AnswerClass.REPLAYED, AnswerClass.CONFLICT, AnswerClass.IN_PROGRESS, AnswerClass.KEY_INVALID}
            if self.use == "required":
                found.add(AnswerClass.KEY_MISSING)
            if contract.duplicates.played("replay") in ("refuse", "redirect"):
                found.add(AnswerClass.DUPLICATE)
            if contract.key.first_sent is not None or contract.retention.then.played("execute") == "refuse":
                found.add(AnswerClass.EXPIRED)
        if route.does in (*MAILS, "launch"):
            found |= {AnswerClass.UNKNOWN, AnswerClass.FAILED}
        if route.does in MAILS and contract.shapes(AnswerClass.PENDING, self.name):
            found.add(AnswerClass.PENDING)
        return [kind for kind in AnswerClass if kind in found]

    def _moreover(self) -> list[tuple[int, AnswerClass]]:
        """Return statuses that come about beside those that are declared."""
        found: list[tuple[int, AnswerClass]] = []
        if self.contract.dry_run_status is not None and self.route.does in MAILS:
            found.append((self.contract.dry_run_status, AnswerClass.ACCEPTED))
        if self.route.does in ("launch", "reject", "resolve", "read") and not self.listed:
            found.append((404, AnswerClass.REFUSED))
        if any(header.lower() == "user-agent" for header in self.contract.request.headers):
            found.append((403, AnswerClass.REFUSED))
        return found

    def _like(self, kind: AnswerClass, status: int) -> AnswerShape:
        """Return the look of a status: its own if it is declared, or else the first, with the status in it."""
        shapes = self.contract.shapes(kind, self.name) or [AnswerShape(status=[CUSTOMARY[kind]])]
        hundred = f"{status // 100}xx"
        found = next((shape for shape in shapes if status in shape.status or hundred in shape.status), shapes[0])
        return found.model_copy(update={"status": [status, *found.status]})

    # --- Bodies --------------------------------------------------------------------------------------------

    def body(self, said: _Said, status: int) -> Schema:
        """Return the schema of an answer's body."""
        if said.kind not in POSITIVE:
            return _negative(said.shape, status)
        if self.route.does == "reconcile":
            return _EVENT_TAKEN
        if self.listed:
            return _list_of(self._item())
        if not self.batch:
            return self._marked(self._one(said.shape.body, said.shape, status))
        item = self._one({} if said.shape.items else said.shape.body, said.shape, status)
        if not said.shape.items:
            return {"type": "array", "items": self._or_flaw(item)}
        schema = _of_filled(said.shape.body, said.shape, status)
        require(schema, said.shape.items, {"type": "array", "items": self._or_flaw(item)})
        return self._marked(schema)

    def _item(self) -> Schema:
        item: Schema = {"type": "object", "properties": {"id": FILLED}, "required": ["id"]}
        require(item, f"/{self._state().rpartition('/')[2]}", self.words)
        return item

    def _one(self, body: dict[str, Any], shape: AnswerShape, status: int) -> Schema:
        schema = _of_filled(body, shape, status)
        place = shape.id or "/id"
        if not place.startswith("header:"):
            require(schema, place, dict(FILLED))
        if self.route.does in ("read", "resolve", "reject"):
            require(schema, self._state(), self.words)
        elif self._current() and pointers.get(body, self._state()) is not None:
            optional(schema, self._state(), self.words)
        return schema

    def _or_flaw(self, item: Schema) -> Schema:
        """A mail of a batch may be refused, or answered by its own key, while the rest is taken."""
        rules = self.contract.batch
        if rules is not None and rules.key.played("whole") == "item":
            return {"type": "object"}
        if rules is None or rules.partial.played("refuse-all") != "accept-rest":
            return item
        shapes = self.contract.shapes(AnswerClass.REFUSED, self.name) or [AnswerShape(status=[422])]
        return any_of([item, _negative(shapes[0], _status(AnswerClass.REFUSED, shapes[0].status[0]))])

    def _state(self) -> str:
        return self.contract.lookup.state if self.contract.lookup is not None else "/status"

    def _current(self) -> bool:
        """Whether a repeat is told of the state as it is then."""
        shows = self.contract.replay.body.played("identical") == "current"
        return shows or self.contract.duplicates.played("replay") == "replay_current"

    def _marked(self, schema: Schema) -> Schema:
        """Add the markers in the body that tell a replay from a first answer."""
        for marker in self.contract.replay.marker.played([]):
            if marker.at is not None:
                optional(schema, marker.at, {"enum": _values(marker)})
        return schema

    # --- Headers and links -----------------------------------------------------------------------------------

    def headers(self, said: list[_Said]) -> dict[str, Any]:
        """Return the headers that an answer may have."""
        hints, replay, found = self.contract.hints, self.contract.replay, dict[str, Schema]()
        for one in said:
            found |= {name: TEXT for name in one.shape.headers if name.lower() != "content-type"}
            if one.shape.id is not None and one.shape.id.startswith("header:") and one.kind in POSITIVE:
                found[one.shape.id.removeprefix("header:")] = FILLED
            if one.kind in hints.retry_after.played([]):
                found["Retry-After"] = {"type": "string", "pattern": "^[0-9]+$"}
            if one.kind in hints.documentation.played([]):
                found["Link"] = FILLED
            if (name := hints.should_retry.played("")) and one.kind not in POSITIVE:
                found[name] = {"enum": ["true", "false"]}
            if one.kind is AnswerClass.DUPLICATE and self.contract.duplicates.played("replay") == "redirect":
                found["Location"] = FILLED
        for marker in replay.marker.played([]):
            if marker.header is not None and any(one.kind in POSITIVE for one in said):
                found[marker.header] = {"enum": [_as_header(value) for value in _values(marker)]}
        if self.use != "ignored" and (echo := replay.key_echo.played("")):
            found[echo] = TEXT
        return {name: {"required": False, "schema": schema} for name, schema in found.items()}

    def links(self, said: list[_Said]) -> dict[str, Any]:
        """Say which routes can be asked about the message that an answer names."""
        place = next((one.shape.id or "/id" for one in said if one.kind in POSITIVE), None)
        if self.route.does not in MAILS or self.batch or place is None or place.startswith("header:"):
            return {}
        return {
            name: {"operationId": name, "parameters": {"id": f"$response.body#{place}"}}
            for name, route in self.contract.routes.items()
            if "{id}" in route.path
        }


def responses(contract: Contract, name: str, route: Route) -> dict[str, Any]:
    """Return every answer of a route by its status."""
    answers = _Answers(contract, name, route)
    told, own = answers.said(), answers.own()
    return {
        str(status): _response(answers, status, told.get(status, []), own=status in own)
        for status in sorted({*told, *own})
    }


def _response(answers: _Answers, status: int, said: list[_Said], *, own: bool) -> dict[str, Any]:
    content: dict[str, list[Schema]] = {}
    for one in said:
        if not one.shape.empty:
            kind = one.shape.headers.get("Content-Type", JSON)
            content.setdefault(kind, []).append(answers.body(one, status))
    if own:
        content.setdefault(JSON, []).append(_OWN)
    tells = " ".join(dict.fromkeys(_TELLS[one.kind] for one in said))
    response: dict[str, Any] = {"description": tells or "It cannot be done."}
    if headers := answers.headers(said):
        response["headers"] = headers
    if content and status not in (204, 304):
        response["content"] = {kind: {"schema": any_of(found)} for kind, found in content.items()}
    if links := answers.links(said):
        response["links"] = links
    return response


def _status(kind: AnswerClass, pattern: int | str) -> int:
    """Return the status that the emulator answers with where a contract names one, or only a hundred of them."""
    if isinstance(pattern, int):
        return pattern
    customary = CUSTOMARY[kind]
    return customary if f"{customary // 100}xx" == pattern else _HUNDREDS[pattern]


def _negative(shape: AnswerShape, status: int) -> Schema:
    schema = _of_filled(shape.body, shape, status)
    if shape.code is not None:
        values = shape.code.one_of
        require(schema, shape.code.at, {"const": values[0]} if len(values) == 1 else {"enum": values})
    if pointers.get(shape.body, shape.message) is None:
        require(schema, shape.message, dict(FILLED))
    return schema


def _list_of(item: Schema) -> Schema:
    return {"type": "object", "properties": {"data": {"type": "array", "items": item}}, "required": ["data"]}


def _of_filled(template: Any, shape: AnswerShape, status: int) -> Schema:
    """Return the schema of a declared body: what is fixed in it is fixed, and a repeated status is the answer's own."""
    if isinstance(template, dict):
        schema: Schema = {"type": "object"}
        if template:
            schema["properties"] = {name: _of_filled(value, shape, status) for name, value in template.items()}
            schema["required"] = list(template)
        return schema
    if isinstance(template, list):
        return {"type": "array"}
    if type(template) is int and template in shape.status:
        return {"const": status}
    if isinstance(template, str) and "{" in template:
        return dict(TEXT)
    return {"const": template}


def _values(marker: Marker) -> list[str | bool | int]:
    return [value for value in (marker.equals, marker.otherwise) if value is not None]


def _as_header(value: str | bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
