"""How a target hands over its mail: a name, the contract that is then kept, and how to be pointed at it.

A dialect is data: its contract file says what a request looks like, where its mail stands, what the answers are, and
whether the vendor deduplicates by key. In the runner's process a dialect is an emulator of that contract in front of
the ledger, so ``resend`` takes a key once as documented, and ``generic`` takes every mail. What the data is read with:

===============  =============================================================
:mod:`bodies`    a request's body, in JSON or as a form
:mod:`mails`     the mail in it: addresses in all their forms, MIME
:mod:`dry_runs`  whether it asks for nothing to be sent
:mod:`resends`   which attempts a vendor's own library made by itself
:mod:`shapes`    an answer in the vendor's words
===============  =============================================================
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.documents import BadFileError


@dataclass(frozen=True, slots=True)
class Dialect:
    """A way to hand over mail."""

    name: str
    contract: Contract
    variables: tuple[str, ...] = ()
    any_path: bool = False

    def environment(self, url: str) -> dict[str, str]:
        """Return the variables that point the vendor's SDKs at ``url``."""
        return dict.fromkeys(self.variables, url)


def names() -> list[str]:
    """Return the names of the dialects: every shipped contract is one."""
    return contracts.names()


def load(name: str) -> Dialect:
    """Return a dialect by its name, or by the path of a contract file."""
    known = names()
    if name not in known and not name.endswith((".yaml", ".yml")):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise BadFileError("dialect", f"{name!r} is not a dialect; {hint}")
    return of(contracts.load(name))


def of(contract: Contract) -> Dialect:
    """Return the dialect of a contract."""
    # Nothing is known of a generic provider, its paths neither.
    return Dialect(contract.name, contract, tuple(contract.variables), contract.name == "generic")
