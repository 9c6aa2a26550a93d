"""The control API of a proxy: what the fake provider's has about faults, and the attempts that crossed.

A proxy knows no mails and no contract, so it has no deliveries and no clock, answers are named by their status, and
what a fault is for is said by key, or by ``message``: a part of ``POST /emails?x=1``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sendtwice.fake_provider.control_edge import AWAITED, EdgeControl, awaited, description
from sendtwice.fake_provider.control_input import body_of, number, query_of
from sendtwice.fake_provider.faults import Faults
from sendtwice.fake_provider.messages import Request
from sendtwice.harness.edges.proxy_log import Crossed, Log, counts

_FILTERS = ("since", "key")


class ProxyControl(EdgeControl):
    """Answers the control API of one proxy."""

    narrows: ClassVar[tuple[str, ...]] = ("key", "message")
    knows_classes: ClassVar[bool] = False

    def __init__(self, faults: Faults, log: Log, *, upstream: str) -> None:
        """Look at ``log``, and put ``faults`` on the wire."""
        super().__init__(
            faults,
            ("client",),
            {
                "attempts": {"GET": self._attempts},
                "wait": {"GET": self._wait},
                "reset": {"POST": self._reset},
                "health": {"GET": self._health},
                "openapi.json": {"GET": self._openapi},
            },
        )
        self._log, self._upstream = log, upstream
        self._first = 0

    def _attempts(self, request: Request) -> dict[str, Any]:
        found = self._found(query_of(request, _FILTERS))
        return {**_listed(found), "counts": counts(found)}

    async def _wait(self, request: Request) -> dict[str, Any]:
        """Wait for attempts that are over, or until the faults with a label have fired."""
        query = query_of(request, (*_FILTERS, "label", *AWAITED))
        hits = self.labelled(query["label"], self._armed, "fault") if "label" in query else []

        def count() -> int:
            return sum(armed.fired for armed in hits) if hits else sum(one.over for one in self._found(query))

        met = await awaited(query, self._log, count)
        found = [
            attempt
            for attempt in self._found(query)
            if (any(armed is hit for armed in attempt.faults for hit in hits) if hits else attempt.over)
        ]
        return {"met": met, "fired": count() if hits else None, **_listed(found)}

    def _found(self, query: dict[str, str]) -> list[Crossed]:
        since = max(int(number(query, "since", 0, whole=True)), self._first)
        return [attempt for attempt in self._log.attempts[since:] if query.get("key") in (None, attempt.key)]

    def _reset(self, request: Request) -> dict[str, Any]:
        """Start anew: what crossed so far is no longer shown, and what is held goes on."""
        body_of(request, ())
        self._first = len(self._log.attempts)
        self.forget_faults()
        return {"ok": True, "since": self._first}

    def _health(self, _: Request) -> dict[str, Any]:
        return {"ok": True, "upstream": self._upstream, "edge": "client"}

    def _openapi(self, _: Request) -> dict[str, Any]:
        return described(set(self._routes))


def _listed(found: list[Crossed]) -> dict[str, Any]:
    return {"attempts": [attempt.as_json() for attempt in found], "count": len(found), "truncated": False}


# --- What describes it -----------------------------------------------------------------------------------------------

_TEXT: dict[str, Any] = {"type": "string"}
_MAYBE: dict[str, Any] = {"type": ["string", "null"]}
_STATUS: dict[str, Any] = {"type": ["integer", "null"]}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_ATTEMPT = _object(
    number={"type": "integer", "minimum": 1},
    at={"type": "number"},
    connection=_COUNT,
    method=_TEXT,
    path=_TEXT,
    key=_MAYBE,
    forwarded={
        "type": "array",
        "items": _object(status=_STATUS, problem=_MAYBE),
        "description": "Each time that it went to the upstream, with the status of the answer or what went wrong.",
    },
    faults={"type": "array", "items": _TEXT, "description": "What was done to it."},
    status={**_STATUS, "description": "What its caller was answered, or would have been; null: there was no answer."},
    sent={"type": "boolean", "description": "Whether the whole answer was written."},
    over={"type": "boolean", "description": "Whether its answer was given, or there will be none."},
    problem={**_MAYBE, "description": "Why it has no answer of the upstream's."},
)
_ATTEMPTS = {"attempts": {"type": "array", "items": {"$ref": "#/components/schemas/Attempt"}}, "count": _COUNT}


def described(routes: set[str]) -> dict[str, Any]:
    """Return the OpenAPI document of a proxy's routes: the fake provider's, less what a proxy does not know."""
    document = description()
    document["info"] |= {
        "summary": "Shows what crossed, and makes faults happen.",
        "description": "Served by sendtwice proxy under /_sendtwice/. A mistake is answered with 422 and one sentence.",
    }
    paths = {path: item for path, item in document["paths"].items() if path[1:] in routes}
    schemas = document["components"]["schemas"]
    for path in ("/attempts", "/wait"):
        asked = paths[path]["get"]
        asked["parameters"] = [one for one in asked["parameters"] if one["name"] not in ("to", "operation")]
    label = {"name": "label", "in": "query", "required": False, "schema": {"type": "string", "minLength": 1}}
    paths["/wait"]["get"] |= {
        "summary": "Wait for attempts that are over, or until a fault has fired; then for quiet.",
        "description": "Answers as soon as it is decided. Without at_least and exactly it waits for one.",
        "parameters": [
            {**label, "description": "Wait until the faults with this label have fired, not for attempts."},
            *paths["/wait"]["get"]["parameters"],
        ],
    }
    paths["/reset"]["post"]["summary"] = "Take the faults away and, for the other calls, forget what was seen so far."
    document["paths"] = paths
    paths["/health"]["get"]["responses"]["200"]["content"]["application/json"]["schema"] = _object(
        ok={"const": True}, upstream=_TEXT, edge={"const": "client"}
    )
    fault = schemas["Fault"]["properties"]
    fault["crossing"] = {"enum": ["client.request", "client.response"]}
    for verb in fault["fault"]["oneOf"]:
        if "answer" in verb.get("properties", {}):
            verb["properties"]["answer"] = {"type": "integer", "minimum": 200, "maximum": 599}
    for name in ("to", "operation"):
        del fault[name]
    fault["key"] = {**_MAYBE, "description": "Only requests with this key."}
    fault["message"] = {**_MAYBE, "description": "Only requests of which this is a part: POST /emails?x=1."}
    fault["stage"]["description"] = "Before the message is complete; only at a request, and without key and message."
    document["components"]["schemas"] = {
        **{name: schemas[name] for name in ("Armed", "Error", "Fault")},
        "Attempt": _ATTEMPT,
        "Attempts": _object(
            **_ATTEMPTS,
            truncated={"const": False},
            counts=_object(attempts=_COUNT, forwarded=_COUNT, lost=_COUNT),
        ),
        "Waited": _object(
            met={"type": "boolean"},
            fired={"type": ["integer", "null"], "description": "With label: how often its faults have fired."},
            **_ATTEMPTS,
            truncated={"const": False},
        ),
    }
    return document
