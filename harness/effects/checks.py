"""What of ``[target.effects]`` cannot be meant, found before anything is started.

The worst slip is a count that is not an operation's own: then every mail of the run would be everybody's second one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import placeholders
from sendtwice.harness.effects.asked import OWN, PER_OPERATION, parameters, without_password
from sendtwice.harness.nearest import nearest

if TYPE_CHECKING:
    from sendtwice.harness.target import TargetBody

_WHERE = "target.effects"


def templates(body: TargetBody, at_start: set[str]) -> Iterator[tuple[str, Any, set[str]]]:
    """Yield each text of the table with its place, and with what is filled in there."""
    settings = body.effects
    if settings is None:
        return
    known = at_start - {"replica"}
    if not body.processes and not (body.client is not None and body.client.command and body.role == "client"):
        known -= {"state"}
    yield f"{_WHERE}.http", settings.http, known | PER_OPERATION
    yield f"{_WHERE}.headers", settings.headers, known
    yield f"{_WHERE}.database", settings.database, known
    yield f"{_WHERE}.command", settings.command, known | PER_OPERATION


def check(body: TargetBody, file: str) -> None:
    """Raise :class:`BadFileError` for the first thing that cannot be meant."""
    settings = body.effects
    if settings is None:
        return
    # Who counts through a wire on which faults are played would meet them.
    for where, template in (("http", settings.http), ("database", settings.database), ("command", settings.command)):
        through = sorted(name for name in placeholders.names(template) if name.startswith("store."))
        if through:
            raise BadFileError(
                file,
                f"{{{through[0]}}} is the wire on which faults are played; write the store's own address",
                where=f"{_WHERE}.{where}",
            )
    if settings.sql is not None and settings.database is not None:
        _check_query(settings.sql, settings.database, file)
    own = OWN | ({"operation"} if body.role != "api" else frozenset())
    if settings.sql is not None:
        where, asked, example = "sql", parameters(settings.sql), ":to"
    elif settings.http is not None:
        where, asked, example = "http", frozenset(placeholders.names(settings.http)), "{to}"
    else:
        where, asked, example = "command", frozenset(placeholders.names(settings.command)), "{to}"
    if not asked & own:
        raise BadFileError(
            file,
            f"{example} is missing; without it everybody's mails are counted, and not one recipient's",
            where=f"{_WHERE}.{where}",
        )


def _check_query(sql: str, database: str, file: str) -> None:
    for name in sorted(parameters(sql) - PER_OPERATION):
        raise BadFileError(
            file, f"unknown parameter :{name}; {nearest(name, sorted(PER_OPERATION))}", where=f"{_WHERE}.sql"
        )
    if not re.match(r"\s*(select|with)\b", sql, re.IGNORECASE):
        raise BadFileError(file, "only reads; write select count(*) from ...", where=f"{_WHERE}.sql")
    if not placeholders.names(database) and "://" not in database:
        raise BadFileError(
            file,
            f"{without_password(database)!r} is no database's URL; write sqlite:///app.db or postgresql://...",
            where=f"{_WHERE}.database",
        )
    if database in ("sqlite://", "sqlite:///", "sqlite:///:memory:"):
        raise BadFileError(
            file,
            "a database in memory is seen by its own process alone; name a file: sqlite:///app.db",
            where=f"{_WHERE}.database",
        )


def addresses(body: TargetBody) -> Iterator[tuple[str, str]]:
    """Yield what is asked over the network, with its place and without a password."""
    settings = body.effects
    if settings is None:
        return
    if settings.http is not None:
        yield f"{_WHERE}.http", without_password(settings.http)
    if settings.database is not None:
        database = placeholders.fill_text(settings.database, {})
        if urlsplit(re.sub(r"\{[^}]*\}", "1", database)).hostname:
            yield f"{_WHERE}.database", without_password(database)
