"""What a request asks, in the words of a contract: its route, its mail, its key, and whose key that is.

Reading changes nothing and never fails: whatever is wrong with a request becomes a :class:`Refusal` in the
result, with the class of answer that the contract gives it.  What a contract does not say is read
leniently, and a key that is sent to an API without keys is read too, for the ledger, but claims nothing.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract, MailPlaces, Route
from sendtwice.fake_provider.dialects import bodies, dry_runs
from sendtwice.fake_provider.dialects import mails as mail_reader
from sendtwice.fake_provider.emulator import keys, pointers, routes
from sendtwice.fake_provider.emulator.asked import Asked, Refusal
from sendtwice.fake_provider.emulator.callers import Caller, scope_of
from sendtwice.fake_provider.emulator.fingerprints import fingerprint
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request

__all__ = ["Asked", "Refusal", "read"]

#: What is done with mail; all else is done with a message that is known already.
_WITH_MAIL = ("send", "draft")


def read(contract: Contract, request: Request, *, any_path: bool = False, now: float | None = None) -> Asked:
    """Understand a request that comes in ``now``."""
    found = routes.find(contract, request, any_path=any_path)
    name, route = found.name, found.route
    now = time.time() if now is None else now
    if name is None or route is None:
        status = 405 if found.allowed else 404
        refusal = Refusal(AnswerClass.REFUSED, "There is nothing here.", status, allow=found.allowed)
        return Asked(None, request.path, refusals=(("edge", refusal),))
    body = bodies.read(request)
    caller = Caller.of(request)
    given = keys.read(contract, name, request, body, now=now)
    own_key = contract.approval is not None and contract.approval.own_key.played("refused") == "allowed"
    edge = _header_missing(contract, request)
    refusals = (*((("edge", edge),) if edge else ()), *caller.refusals(route, own_key=own_key))
    asked = Asked(
        name,
        request.path,
        route.does,
        key=given.key,
        made=given.made,
        sent=given.sent,
        first_sent=given.first_sent,
        until=given.until,
        account=caller.account,
        id=found.id,
        body=body,
        query=request.query,
        dry_run=route.does in _WITH_MAIL and dry_runs.asked(contract, request, body),
        refusals=refusals,
    )
    if given.problem is not None and not asked.dry_run:
        asked = replace(asked, refusals=(*refusals, ("key", given.problem)))
    if route.does not in _WITH_MAIL:
        return _without_mail(contract, route, request, caller, asked) if given.claims else asked
    asked = _with_mail(contract, route, request, caller, asked, claims=given.claims and not asked.dry_run)
    if contract.batch is None or not asked.batch or contract.batch.key.played("whole") == "whole" or asked.dry_run:
        return asked
    return replace(asked, items=tuple(_items(contract, route, request, caller, asked, now=now)))


def _without_mail(contract: Contract, route: Route, request: Request, caller: Caller, asked: Asked) -> Asked:
    """Return a request under a key that asks for something else than mail."""
    assert asked.route is not None
    return replace(
        asked,
        claims=True,
        scope=scope_of(contract, route, request, caller, (), batch=False),
        fingerprint=fingerprint(contract, asked.route, request, asked.body, contract.mail),
    )


def _with_mail(
    contract: Contract, route: Route, request: Request, caller: Caller, asked: Asked, *, claims: bool
) -> Asked:
    """Return a request with the mails that it asks for."""
    assert asked.route is not None
    places, body = route.mail or contract.mail, asked.body
    listed = body if places.items is None else pointers.get(body, places.items)
    batch = isinstance(listed, list)
    items = listed if isinstance(listed, list) else [body]
    key = None if asked.made else asked.key
    mails = tuple(
        mail_reader.read(places, item, key=key, raw=request.body if items == [body] else None) for item in items
    )
    problems = [_problem(places, item, mail) for item, mail in zip(items, mails, strict=True)]
    flaws: tuple[tuple[int, str], ...] = ()
    wrong = _too_many(contract, items) if batch else None
    if wrong is None and any(problems):
        if batch and contract.batch is not None and contract.batch.partial.played("refuse-all") == "accept-rest":
            flaws = tuple((at, problem) for at, problem in enumerate(problems) if problem is not None)
        if len(flaws) in (0, len(mails)):
            wrong, flaws = next(filter(None, problems)), ()
    taken = tuple(mail for mail, problem in zip(mails, problems, strict=True) if problem is None or not flaws)
    invalid = () if wrong is None else (("validation", Refusal(AnswerClass.REFUSED, wrong)),)
    due = pointers.get(body, contract.scheduled.at) if contract.scheduled and contract.scheduled.at else None
    return replace(
        asked,
        mails=taken,
        batch=batch,
        claims=claims and (route.does == "send" or _drafts_once(contract)),
        scope=scope_of(contract, route, request, caller, mails, batch=batch),
        fingerprint=fingerprint(contract, asked.route, request, body, places),
        refusals=(*asked.refusals, *invalid),
        due=keys.moment(due),
        flaws=flaws,
    )


def _items(
    contract: Contract, route: Route, request: Request, caller: Caller, whole: Asked, *, now: float
) -> list[Asked]:
    """Return the mails of a batch, each a request with a key of its own: in itself, or made from the batch's."""
    assert whole.route is not None
    places, name = route.mail or contract.mail, whole.route
    bodies_of = whole.body if places.items is None else pointers.get(whole.body, places.items)
    found = []
    for at, body in enumerate(bodies_of):
        alone = replace(request, body=json.dumps(body).encode())
        given = keys.read(contract, name, alone, body, now=now) if _key_inside(contract, name) else None
        key = given.key if given is not None else None if whole.key is None else f"{whole.key}/{at}"
        problem = given.problem if given is not None else None
        one = replace(
            whole,
            key=key,
            sent=given.sent if given is not None else whole.sent,
            body=body,
            refusals=(*_beside(whole), *((("key", problem),) if problem is not None else ())),
        )
        inside = places.model_copy(update={"items": None})
        claims = given.claims if given is not None else whole.claims
        single = route.model_copy(update={"mail": inside})
        item = _with_mail(contract, single, alone, caller, one, claims=claims)
        found.append(replace(item, batch=False, scope=whole.scope))
    return found


def _beside(whole: Asked) -> tuple[tuple[str, Refusal], ...]:
    """Return what is wrong with a batch apart from its keys and its mails."""
    return tuple((check, refusal) for check, refusal in whole.refusals if check not in ("key", "validation"))


def _key_inside(contract: Contract, name: str) -> bool:
    """Whether a key stands in a body, so that in a batch each mail can have its own."""
    return contract.key_at(name).startswith("body:")


def _drafts_once(contract: Contract) -> bool:
    return contract.approval is not None and contract.approval.creation.played("not-deduplicated") == "deduplicated"


def _header_missing(contract: Contract, request: Request) -> Refusal | None:
    """Some vendors refuse a request without a User-Agent; a contract that shows one means that."""
    shown = {name.lower() for name in contract.request.headers}
    if "user-agent" in shown and not request.header("user-agent"):
        return Refusal(AnswerClass.REFUSED, "A User-Agent is required.", 403)
    return None


def _too_many(contract: Contract, items: list[Any]) -> str | None:
    if not items:
        return "The batch is empty."
    most = contract.batch.max.played(len(items)) if contract.batch is not None else len(items)
    return f"A batch has at most {most} mails." if len(items) > most else None


def _problem(places: MailPlaces, item: Any, mail: Mail) -> str | None:
    """Return what is wrong with one mail."""
    if not isinstance(item, dict):
        return "The body is not a JSON object."
    for pointer in places.required:
        if pointers.get(item, pointer) in (None, "", []):
            return f"{pointer[1:]} is missing."
    if not mail.recipients:
        return f"There is no recipient at {places.to}."
    wrong = next((recipient for recipient in mail.recipients if "@" not in recipient), None)
    return None if wrong is None else f"{wrong!r} is not an address."
