"""Who asks, and whose key that is.

A real API looks its callers up; the emulator reads what it needs from the request itself, by these conventions:

===============================  ==================================================================================
bearer token                     ``ACCOUNT[:CREDENTIAL[:ENVIRONMENT]]``, the text after the scheme in Authorization
``tenant``                       ACCOUNT
``credential`` ``user``          ACCOUNT:CREDENTIAL
``environment``                  ENVIRONMENT; ``live`` when left out
``mailbox`` ``domain``           the sender of the (first) mail; what is behind its ``@``
``region``                       the header X-Region; else the host that was asked, without its port
``version``                      the header that is named so (Stripe-Version, X-Api-Version), or ``api-version`` in
                                 the query
===============================  ==================================================================================

A CREDENTIAL can ask for an answer, as some recipients ask for faults: ``unauthorized``, ``rate-limited`` (the first of
the looks that the contract declares) and ``over-quota`` (the last). ``person`` is a person's, at a dashboard: the only
one that is taken where a route asks for a person. A mail from ``needs-approval``, as a mailbox or as the name before
the ``@``, needs approval where the contract has approvals.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parseaddr
from typing import Self

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract, Route
from sendtwice.fake_provider.emulator.asked import Refusal
from sendtwice.fake_provider.ledger import Mail
from sendtwice.fake_provider.messages import Request

PERSON = "person"
#: A token that says who asks: ACCOUNT:CREDENTIAL, and the environment.
_WRITTEN = re.compile(r"[\w.-]+:[\w.-]*(?::[\w.-]*)?", re.ASCII)
#: Of every library there is a version in some header; an API's own is called after the API, or ``api``.
_VERSION = re.compile(r"version|(x-)?api-version|(?!mime-)[a-z]+-version")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    account: str
    credential: str = ""
    environment: str = "live"

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return who sent a request."""
        scheme, _, token = (request.header("authorization") or "").strip().partition(" ")
        account, _, rest = (token or scheme).strip().partition(":")
        credential, _, environment = rest.partition(":")
        return cls(account, credential, environment or "live")

    @classmethod
    def in_one_account(cls, request: Request) -> Self:
        """Return who sent a request, where a token that is not written ACCOUNT:CREDENTIAL says nothing of the account.

        A token may be fetched anew, and a signature is another one for each request; both are the same caller's.
        """
        token = (request.header("authorization") or "").strip().rpartition(" ")[2]
        return cls.of(request) if _WRITTEN.fullmatch(token) else cls("main")

    def refusals(self, route: Route, *, own_key: bool) -> tuple[tuple[str, Refusal], ...]:
        """Return why this caller gets no further; ``own_key``: a sender's may do what a person's may."""
        if self.credential == "unauthorized":
            return (("auth", Refusal(AnswerClass.UNAUTHORIZED, "This credential is not known here.")),)
        if self.credential == "rate-limited":
            return (("rate_limit", Refusal(AnswerClass.RATE_LIMITED, "Too many requests; try again later.")),)
        if self.credential == "over-quota":
            return (("rate_limit", Refusal(AnswerClass.RATE_LIMITED, "The quota is used up.", last=True)),)
        if route.asks == "person" and self.credential != PERSON and not own_key:
            message = "This takes a person; a sender's own credential cannot do it."
            return (("auth", Refusal(AnswerClass.UNAUTHORIZED, message, preferred=403)),)
        return ()


def needs_approval(contract: Contract, mail: Mail) -> bool:
    """Whether a mail waits for a person before it leaves."""
    return contract.approval is not None and _address(mail).partition("@")[0] == "needs-approval"


class Scopes:
    """The spaces in which the keys of one route are looked up."""

    def __init__(self, contract: Contract, route: Route) -> None:
        """Tell apart what ``contract`` tells apart."""
        parts = route.scope if route.scope is not None else contract.scope.played(["tenant"])
        self._parts = [(part, _PARTS[part]) for part in sorted(parts) if part in _PARTS]
        self._batches = contract.batch is not None and contract.batch.key_space.played("shared") == "separate"

    def of(self, request: Request, caller: Caller, mails: tuple[Mail, ...], *, batch: bool) -> str:
        """Return the space of a request's key."""
        address = functools.partial(_address, mails[0]) if mails else str
        found = {name: part(request, caller, address) for name, part in self._parts}
        if batch and self._batches:
            found["space"] = "batch"
        return _written(tuple(found.items()))


@functools.lru_cache(maxsize=1024)
def _written(parts: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(parts))


def version_of(request: Request) -> str:
    """Return which version of the API is asked for."""
    named = [f"{name}: {value}" for name, value in request.headers if _VERSION.fullmatch(name)]
    return "\n".join(sorted(named)) or request.query.get("api-version", "")


def _host(request: Request) -> str:
    # The port is of this process only; after a restart it may be another one.
    host = (request.header("host") or "").lower()
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _address(mail: Mail) -> str:
    return parseaddr(mail.sender)[1] or mail.sender


#: What a part of a scope is, by the request, who asks, and the sender's address, which takes a while to find.
_PARTS: dict[str, Callable[[Request, Caller, Callable[[], str]], str]] = {
    "tenant": lambda _, caller, __: caller.account,
    "credential": lambda _, caller, __: f"{caller.account}:{caller.credential}",
    "user": lambda _, caller, __: f"{caller.account}:{caller.credential}",
    "mailbox": lambda _, __, address: address(),
    "domain": lambda _, __, address: address().rpartition("@")[2].lower(),
    "environment": lambda _, caller, __: caller.environment,
    "region": lambda request, _, __: request.header("x-region") or _host(request),
    "path": lambda request, _, __: request.path,
    "method": lambda request, _, __: request.method,
    "query": lambda request, _, __: json.dumps(sorted(request.query.items())),
    "version": lambda request, _, __: version_of(request),
}
