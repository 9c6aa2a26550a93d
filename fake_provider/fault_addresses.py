"""Recipients that ask for a fault, as vendors' own test addresses do.

=============================  ====================================================================
``response-lost@fault.test``   delivered, and the connection is reset before the first byte
``response-cut@fault.test``    delivered, and the answer breaks off in the middle of its body
``unknown-outcome@fault.test`` delivered, and answered as unknown
``busy@fault.test``            not delivered: too many requests, or unavailable
``server-error@fault.test``    not delivered: an error of the API itself, before any effect
``pending@fault.test``         not delivered: waits for approval
``refused@fault.test``         not delivered: refused for good
``slow+3s@fault.test``         delivered after three seconds
=============================  ====================================================================

The first five hit the first attempt of each key only, so that a caller's retry can be seen to end well;
``busy+3@fault.test`` hits the first three.  A request without a key is a first attempt each time, unless it
is the same request again.  What becomes of the key after an error of the API itself is the contract's
(``outcomes.server_error``).  What follows another ``+`` is ignored, so ``pending+anything@fault.test`` is an
address too.  Another name at ``fault.test`` is refused with 422: a fault that was misspelt and never happens
would let a test pass that tests nothing.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter

from sendtwice.fake_provider.contracts.model import AnswerClass, Contract
from sendtwice.fake_provider.emulator.asked import Asked, Refusal
from sendtwice.fake_provider.faults import Fault, Place, Verb

DOMAIN = "fault.test"

_ADDRESS = re.compile(rf"(?P<name>[a-z-]+)(?:\+(?P<tag>[^@]*))?@{re.escape(DOMAIN)}", re.IGNORECASE)
_SERVER_ERROR = "server-error"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class FaultAddresses:
    """Reads faults from recipients, for one edge."""

    def __init__(self, edge: str, contract: Contract) -> None:
        """Return faults for the crossings of ``edge``, in the answers of ``contract``."""
        self._contract = contract
        request, response = Place(f"{edge}.request"), Place(f"{edge}.response")
        self._request = request
        self._first_only = {
            "response-lost": Fault(response, Verb.LOSE),
            "response-cut": Fault(response, Verb.LOSE, "in-body"),
            "unknown-outcome": Fault(response, Verb.ANSWER, AnswerClass.UNKNOWN.value),
            "busy": Fault(request, Verb.ANSWER, AnswerClass.RATE_LIMITED.value),
        }
        self._always = {
            "pending": Fault(request, Verb.ANSWER, AnswerClass.PENDING.value),
            "refused": Fault(request, Verb.ANSWER, AnswerClass.REFUSED.value),
        }
        self._seen: Counter[tuple[str, ...]] = Counter()

    def faults(self, asked: Asked) -> tuple[Fault, ...] | Refusal:
        """Return the faults that the recipients of a request ask for, or why there is no such fault."""
        if asked.refusal is not None:
            return ()
        found: list[Fault] = []
        fails = False
        for mail in asked.mails:
            for recipient in mail.recipients:
                # Nearly all recipients are no such address, and this is on the way of every mail.
                if not recipient.lower().endswith(f"@{DOMAIN}"):
                    continue
                match = _ADDRESS.fullmatch(recipient)
                name = match["name"].lower() if match is not None else ""
                problem = self._problem(recipient, name)
                if problem is not None:
                    return Refusal(AnswerClass.REFUSED, problem, 422, ours=True)
                tag = (match["tag"] if match is not None else None) or ""
                if name == _SERVER_ERROR:
                    fails = self._counts(asked, recipient, tag) or fails
                else:
                    found += self._of(asked, recipient, name, tag)
        if fails:
            return Refusal(AnswerClass.FAILED, "The API has failed; nothing was sent.", preferred=500)
        return tuple(found)

    def reset(self) -> None:
        """Forget which attempts there were."""
        self._seen.clear()

    def _problem(self, recipient: str, name: str) -> str | None:
        known = ("slow", *self._first_only, _SERVER_ERROR, *self._always)
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}@{DOMAIN}? " if near else ""
            return f"{recipient!r} asks for no fault that there is; {hint}known: {', '.join(known)}."
        if name == "pending" and AnswerClass.PENDING not in self._contract.answers:
            return f"The contract {self._contract.name} declares no pending answer, so {recipient!r} cannot be played."
        return None

    def _of(self, asked: Asked, recipient: str, name: str, tag: str) -> list[Fault]:
        if name == "slow":
            seconds = _SECONDS.fullmatch(tag)
            return [Fault(self._request, Verb.DELAY, float(seconds[1]) if seconds else 1.0)]
        if name in self._always:
            return [self._always[name]]
        return [self._first_only[name]] if self._counts(asked, recipient, tag) else []

    def _counts(self, asked: Asked, recipient: str, tag: str) -> bool:
        """Count an attempt, and return whether it is still one of those that are hit."""
        guard = asked.key if asked.key is not None else asked.fingerprint
        counted = (recipient.lower(), asked.scope, guard)
        self._seen[counted] += 1
        return self._seen[counted] <= (int(tag) if tag.isdecimal() else 1)
