"""What a request asks, in the words of a contract: its route, its mail, its key, and whose key that is.

Reading changes nothing and never fails: whatever is wrong with a request becomes a :class:`Refusal` in the
result, with the class of answer that the contract gives it.  What a contract does not say is read
leniently, and a key that is sent to an API without keys is read too, for the ledger, but claims nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sendtwice.fake_provider.contracts.model import SEND, AnswerClass, Contract, MailPlaces
from sendtwice.fake_provider.dialects import bodies, dry_runs
from sendtwice.fake_provider.dialects import mails as mail_reader
from sendtwice.fake_provider.emulator import keys, pointers, routes
from sendtwice.fake_provider.emulator.asked import Asked, Identity, Refusal
from sendtwice.fake_provider.emulator.callers import Caller, Scopes
from sendtwice.fake_provider.emulator.fingerprints import Fingerprints
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request

__all__ = ["Asked", "Reader", "Refusal"]

#: What is done with mail; all else is done with a message that is known already.
_WITH_MAIL = ("send", "draft")


class Reader:
    """Reads the requests for one contract."""

    def __init__(
        self, contract: Contract, *, any_path: bool = False, who: Callable[[Request], Caller] = Caller.of
    ) -> None:
        """Read as ``contract`` says; with ``any_path`` whatever is posted to no route of it is a send too.

        ``who`` tells who asks.
        """
        self._contract = contract
        self._routes = routes.Routes(contract, any_path=any_path)
        self._by_name = {name: _RouteReader(contract, name, who) for name in (SEND, *contract.routes)}
        # Some vendors refuse a request without a User-Agent; a contract that shows one means that.
        self._wants_agent = "user-agent" in {name.lower() for name in contract.request.headers}

    def read(self, request: Request, *, now: float | None = None) -> Asked:
        """Understand a request that comes in ``now``."""
        found = self._routes.find(request)
        if found.name is None:
            status = 405 if found.allowed else 404
            refusal = Refusal(AnswerClass.REFUSED, "There is nothing here.", status, allow=found.allowed)
            return Asked(None, request.path, refusals=(("edge", refusal),))
        edge: tuple[tuple[str, Refusal], ...] = ()
        if self._wants_agent and not request.header("user-agent"):
            edge = (("edge", Refusal(AnswerClass.REFUSED, "A User-Agent is required.", 403)),)
        now = time.time() if now is None else now
        return self._by_name[found.name].read(request, found.id, edge, now=now)


class _RouteReader:
    """Reads the requests for one route."""

    def __init__(self, contract: Contract, name: str, who: Callable[[Request], Caller]) -> None:
        self._contract, self._name, self._who = contract, name, who
        self._route = route = contract.route(name)
        self._places = route.mail or contract.mail
        self._keys, self._scopes = keys.Keys(contract, name), Scopes(contract, route)
        self._with_mail = route.does in _WITH_MAIL
        self._fingerprints = Fingerprints(contract, name, self._places if self._with_mail else contract.mail)
        approval, batch = contract.approval, contract.batch
        self._own_key = approval is not None and approval.own_key.played("refused") == "allowed"
        drafts_once = approval is not None and approval.creation.played("not-deduplicated") == "deduplicated"
        self._guards = route.does == "send" or drafts_once
        self._accepts_rest = batch is not None and batch.partial.played("refuse-all") == "accept-rest"
        self._by_item = batch is not None and batch.key.played("whole") != "whole"
        self._due = contract.scheduled.at if contract.scheduled is not None else None
        # Whether a key stands in a body, so that in a batch each mail can have its own.
        self._key_inside = contract.key_at(name).startswith("body:")

    def read(self, request: Request, number: str | None, edge: tuple[tuple[str, Refusal], ...], *, now: float) -> Asked:
        """Understand a request; ``number`` is the id in its path, ``edge`` what is wrong with it already."""
        body = bodies.read(request)
        caller = self._who(request)
        given = self._keys.read(request, body, now=now)
        dry_run = self._with_mail and dry_runs.asked(self._contract, request, body)
        refusals = (*edge, *caller.refusals(self._route, own_key=self._own_key))
        if given.problem is not None and not dry_run:
            refusals = (*refusals, ("key", given.problem))
        found = self._mails(body, None if given.made else given.key, request) if self._with_mail else _Mails()
        asked = Asked(
            self._name,
            request.path,
            self._route.does,
            found.taken,
            found.batch,
            given.key,
            claims=given.claims and not dry_run and (self._guards or not self._with_mail),
            identity=Identity(
                partial(self._scopes.of, request, caller, found.all, batch=found.batch),
                partial(self._fingerprints.of, request, body),
            ),
            refusals=(*refusals, ("validation", found.problem)) if found.problem is not None else refusals,
            account=caller.account,
            made=given.made,
            sent=given.sent,
            first_sent=given.first_sent,
            until=given.until,
            due=keys.moment(pointers.get(body, self._due)) if self._due is not None and self._with_mail else None,
            id=number,
            body=body,
            query=request.query,
            dry_run=dry_run,
            flaws=found.flaws,
        )
        if not found.batch or not self._by_item or dry_run:
            return asked
        return replace(asked, items=tuple(self._items(request, asked, given.claims, now=now)))

    def _mails(self, body: Any, key: str | None, request: Request, *, alone: bool = False) -> _Mails:
        """Return the mails that a body asks for, and what is wrong with them; ``alone``: it is one of a batch."""
        places = self._places
        listed = body if places.items is None or alone else pointers.get(body, places.items)
        batch = isinstance(listed, list) and not alone
        items = listed if isinstance(listed, list) and batch else [body]
        raw = None if batch else request.body
        mails = tuple(mail_reader.read(places, item, key=key, raw=raw) for item in items)
        problems = [_problem(places, item, mail) for item, mail in zip(items, mails, strict=True)]
        flaws: tuple[tuple[int, str], ...] = ()
        wrong = _too_many(self._contract, items) if batch else None
        if wrong is None and any(problems):
            if batch and self._accepts_rest:
                flaws = tuple((at, problem) for at, problem in enumerate(problems) if problem is not None)
            if len(flaws) in (0, len(mails)):
                wrong, flaws = next(filter(None, problems)), ()
        taken = mails
        if flaws:
            taken = tuple(mail for mail, problem in zip(mails, problems, strict=True) if problem is None)
        return _Mails(mails, taken, batch, flaws, None if wrong is None else Refusal(AnswerClass.REFUSED, wrong))

    def _items(self, request: Request, whole: Asked, claims: bool, *, now: float) -> Iterator[Asked]:
        """Return the mails of a batch, each a request with a key of its own: in itself, or made from the batch's."""
        beside = tuple((check, refusal) for check, refusal in whole.refusals if check not in ("key", "validation"))
        bodies_of = whole.body if self._places.items is None else pointers.get(whole.body, self._places.items)
        for at, body in enumerate(bodies_of):
            single = replace(request, body=json.dumps(body).encode())
            given = self._keys.read(single, body, now=now) if self._key_inside else None
            if given is None:
                key = None if whole.key is None else f"{whole.key}/{at}"
                given = keys.Given(key, claims, whole.sent, whole.made, whole.first_sent, whole.until)
            refusals = beside if given.problem is None else (*beside, ("key", given.problem))
            found = self._mails(body, None if given.made else given.key, single, alone=True)
            yield replace(
                whole,
                mails=found.taken,
                batch=False,
                key=given.key,
                claims=given.claims and self._guards,
                identity=Identity(lambda: whole.scope, partial(self._fingerprints.of, single, body)),
                refusals=(*refusals, ("validation", found.problem)) if found.problem is not None else refusals,
                made=given.made,
                sent=given.sent,
                due=keys.moment(pointers.get(body, self._due)) if self._due is not None else None,
                body=body,
                flaws=(),
            )


@dataclass(frozen=True, slots=True)
class _Mails:
    """What a request asks for in mails: ``all`` of them, those that are ``taken``, and what is wrong with the rest."""

    all: tuple[Mail, ...] = ()
    taken: tuple[Mail, ...] = ()
    batch: bool = False
    flaws: tuple[tuple[int, str], ...] = ()
    problem: Refusal | None = None


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
