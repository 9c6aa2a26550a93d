"""``sendtwice schema``: JSON Schema of the files that people write, and of the result.

The models give the long forms. What their validators also take is added here: the short forms of faults
and claims, steps that are a bare word, single values where a list may stand. A test holds every shipped
file against its schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sendtwice.fake_provider.contracts import Contract, Level
from sendtwice.fake_provider.faults import VERBS
from sendtwice.harness.fault_specs import LONGEST
from sendtwice.harness.result import SCHEMA, Verdict
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.target import Target

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_BARE_STEPS = ("crash", "restart", "stop", "pause", "resume", "settle")

Json = dict[str, Any]


def schema(kind: str) -> Json:
    """Return the schema of a target file, a contract, a scenario or a result."""
    makers: dict[str, Callable[[], Json]] = {
        "target": _target,
        "contract": _contract,
        "scenario": _scenario,
        "result": _result,
    }
    return {"$schema": _DRAFT, "title": f"sendtwice: {kind}", **makers[kind]()}


def _target() -> Json:
    made = Target.model_json_schema(by_alias=True)
    del made["title"]
    return made


# -- scenario ---------------------------------------------------------------------------------------------


def _scenario() -> Json:
    made = Scenario.model_json_schema(by_alias=True)
    del made["title"]
    parts = made["$defs"]
    parts["RetryAfter"] = {"anyOf": [_SECONDS, _one("seconds", _SECONDS), _one("date", _SECONDS)]}
    arguments = {"of", "nth", "times", "stage", "label", "store", "message", *_OF_ANSWERS}
    common = {name: parts["FaultSpec"]["properties"][name] for name in arguments}
    parts["FaultAt"] = {"anyOf": [_fault(place.value, verbs, common) for place, verbs in VERBS.items()]}
    parts["Faults"] = {
        "anyOf": [
            {
                "type": "object",
                "properties": {
                    place.value: {
                        "anyOf": [
                            {"enum": sorted(verb.value for verb in verbs)},
                            _verbs(verbs, common),
                        ]
                    }
                    for place, verbs in VERBS.items()
                },
                "additionalProperties": False,
            },
            {"$ref": "#/$defs/FaultAt"},
            {
                "type": "array",
                "items": {"anyOf": [{"$ref": "#/$defs/FaultAt"}, {"$ref": "#/$defs/FaultSpec"}]},
            },
        ]
    }
    for part in parts.values():
        if "at" in part.get("properties", {}):
            part["properties"]["at"] = {"$ref": "#/$defs/Faults"}
    plainly = {name: part for name, part in common.items() if name not in _OF_ANSWERS}
    held: Json = {"type": "object", "properties": {"crossing": {"enum": [p.value for p in VERBS]}, **plainly}}
    held |= {"required": ["crossing"], "additionalProperties": False}
    parts["HoldStep"]["properties"]["hold"] = {"anyOf": [held, {"$ref": "#/$defs/FaultAt"}]}
    burst = parts["ParallelStep"]["properties"]["parallel"]["anyOf"][1]
    items = [{"$ref": f"#/$defs/{name}"} for name in ("Send", "Operate", "Notify", "Redeliver")]
    words = [_one(item["$ref"].rpartition("/")[2].lower(), item) for item in items]
    parts["ParallelStep"]["properties"]["parallel"] = {
        "anyOf": [{"type": "array", "items": {"anyOf": [*items, *words]}}, burst]
    }
    parts["CallStep"]["properties"]["call"] = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Call"}]}
    # How far: a number of seconds, or the name of the claim that says it.
    by = parts["Advance"]["properties"]["by"]
    parts["AdvanceStep"]["properties"]["advance"] = {"anyOf": [*by["anyOf"], {"$ref": "#/$defs/Advance"}]}
    parts["Change"]["properties"]["fields"] = {
        "const": "reordered",
        "description": "older spelling of form: field-order",
    }
    told = parts["Expect"]["properties"]["told"]["additionalProperties"]
    parts["Expect"]["properties"]["told"]["additionalProperties"] = {"anyOf": [told, told["items"]]}
    # Groups ([m1, m2]: 2) are keys that JSON does not have.
    count = {
        "anyOf": [
            {"type": "integer"},
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        ]
    }
    parts["Expect"]["properties"]["deliveries"] = {"type": "object", "additionalProperties": count}
    steps = made["properties"]["steps"]
    steps["items"] = {"anyOf": [{"enum": list(_BARE_STEPS)}, *steps["items"].pop("oneOf")]}
    return made


#: Arguments of a fault that only an answer has.
_OF_ANSWERS = ("retry_after", "location")
_SECONDS: Json = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST}


def _one(name: str, what: Json) -> Json:
    """Return an object with one thing in it."""
    return {"type": "object", "properties": {name: what}, "required": [name], "additionalProperties": False}


def _verbs(verbs: Any, common: Json) -> Json:
    names = sorted(verb.value for verb in verbs)
    argument = {"type": ["string", "number", "null"]}
    return {
        "type": "object",
        "properties": {**dict.fromkeys(names, argument), **common},
        "oneOf": [{"required": [name]} for name in names],
        "dependentRequired": {name: ["answer"] for name in _OF_ANSWERS},
        "additionalProperties": False,
    }


def _fault(place: str, verbs: Any, common: Json) -> Json:
    made = _verbs(verbs, common)
    made["properties"]["crossing"] = {"const": place}
    made["required"] = ["crossing"]
    return made


# -- contract ---------------------------------------------------------------------------------------------


#: Parts that an extending file replaces whole, beside every claim.
_WHOLE = frozenset({"AnswerShape", "Code", "Marker"})


def _contract() -> Json:
    whole = _contract_forms()
    parts = whole.pop("$defs")
    groups = {
        name
        for name, part in parts.items()
        if name not in _WHOLE and not name.startswith("Claim_") and "enum" not in part
    }
    return {
        "type": "object",
        "properties": {"extends": {"type": "string", "description": "a contract of which this one says what differs"}},
        "if": {"required": ["extends"]},
        "then": {**_partial(whole, groups), "required": ["name"]},
        "else": whole,
        "$defs": parts | {f"Partial{name}": _partial(parts[name], groups) for name in sorted(groups)},
    }


def _partial(part: Json, groups: set[str]) -> Json:
    """Return a group of which an extending file says only what differs, and takes out with ``null`` what does not hold.

    References to other ``groups`` are to their partial forms; what is no group is replaced whole.
    """
    made: Json = _renamed(part, groups)
    for form in (made, *made.get("anyOf", ())):
        if form.get("type") == "object":
            form.pop("required", None)
            form["properties"] = {name: _or(_NULL, value) for name, value in form["properties"].items()}
            for value in form["properties"].values():
                table = value["anyOf"][1]
                if isinstance(table.get("additionalProperties"), dict):
                    table["additionalProperties"] = _or(_NULL, table["additionalProperties"])
    return made


_NULL: Json = {"type": "null"}


def _or(*forms: Json) -> Json:
    return {"anyOf": list(forms)}


def _renamed(part: Any, groups: set[str]) -> Any:
    if isinstance(part, list):
        return [_renamed(item, groups) for item in part]
    if not isinstance(part, dict):
        return part
    named = str(part.get("$ref", "")).removeprefix("#/$defs/")
    return {key: _renamed(value, groups) for key, value in part.items()} | (
        {"$ref": f"#/$defs/Partial{named}"} if named in groups else {}
    )


def _contract_forms() -> Json:
    """Return the schema of a whole contract, with the short forms of its parts."""
    made = Contract.model_json_schema(by_alias=True)
    for name in ("title", "description"):
        made.pop(name, None)
    parts = made["$defs"]
    for part in (made, *parts.values()):
        for field in part.get("properties", {}).values():
            if isinstance(field.get("default"), dict):
                del field["default"]  # of a group: all its claims are unknown
    for name, part in list(parts.items()):
        if name.startswith("Claim_"):
            value = part["properties"]["value"]
            short = [kind for kind in value.get("anyOf", [value]) if kind.get("type") != "null"]
            parts[name] = _or({"const": "unknown"}, *short, part)
            part["anyOf"] = [{"required": [one]} for one in ("value", "basis", "play")]
    for part, field in (("AnswerShape", "status"), ("Code", "is")):
        listed = parts[part]["properties"][field]
        parts[part]["properties"][field] = _or(listed["items"], listed)
    for part in (made, parts["Route"]):
        answers = part["properties"]["answers"]
        looks = answers["additionalProperties"]
        answers["additionalProperties"] = _or(looks["items"], looks)
    for name in ("Lease", "Reconciliation"):  # a bare value is the group's first claim
        group = parts[name]
        parts[name] = _or(next(iter(group["properties"].values())), group)
    return made


# -- result -----------------------------------------------------------------------------------------------


def _result() -> Json:
    text, number, whole = (
        {"type": "string"},
        {"type": "number", "minimum": 0},
        {"type": "integer", "minimum": 0},
    )
    maybe = {"type": ["string", "null"]}
    texts = {"type": "array", "items": text}
    finding = _object(
        {
            "rule": text,
            "level": {"enum": [level.value for level in Level]},
            "message": text,
            "remedy": text,
            "events": {
                "type": "array",
                "items": whole,
                "description": "seq of the history's events that prove it",
            },
            "operation": maybe,
        },
        optional=("operation",),
    )
    verdicts = [verdict.value for verdict in Verdict]
    scenario = _object(
        {
            "id": text,
            "verdict": {"enum": verdicts},
            "reason": maybe,
            "needs": texts,
            "seconds": number,
            "watched": number,
            "deliveries": {"type": "object", "additionalProperties": whole, "description": "by operation"},
            "answers": {
                "type": "object",
                "additionalProperties": texts,
                "description": "by attempt: every class that its answer may belong to, or how it ended",
            },
            "findings": {"type": "array", "items": finding},
            "known": texts,
            "replay": maybe,
        },
        optional=("known",),
    )
    return _object(
        {
            "schema": {"const": SCHEMA},
            "sendtwice": text,
            "target": text,
            "role": {"enum": ["api", "client", "consumer"]},
            "contract": text,
            "contract_sha256": text,
            "seed": {"type": "integer"},
            "started": text,
            "seconds": number,
            "verdict": {"enum": [*verdicts, "error"]},
            "error": maybe,
            "counts": _object(dict.fromkeys(verdicts, whole)),
            "strays": whole,
            "watched": number,
            "scenarios": {"type": "array", "items": scenario},
            "observed": {"type": "object", "additionalProperties": text},
        },
        optional=("role", "seconds", "error", "watched"),
    )


def _object(properties: Json, *, optional: tuple[str, ...] = ()) -> Json:
    """Readers must bear fields that a later version adds, so more are allowed."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}
