"""What a target file's model cannot check by itself, found before anything is started.

A slip here would not fail loudly: a body without ``{to}`` sends every mail to one person, a second tenant without
credentials of its own is the first, and a variable that is not set is seen by the tenth scenario. So each is refused in
one line that names the file, the place and the remedy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sendtwice.fake_provider import contracts, dialects
from sendtwice.fake_provider.contracts import Contract
from sendtwice.fake_provider.contracts.model import Route
from sendtwice.fake_provider.documents import BadFileError, Document
from sendtwice.harness import placeholders
from sendtwice.harness.effects import checks as effects
from sendtwice.harness.judge.rules import RULES
from sendtwice.harness.nearest import nearest
from sendtwice.harness.remote import is_loopback, not_allowed

if TYPE_CHECKING:
    from sendtwice.harness.target import Target

Place = tuple[str, Any, set[str]]


def check(target: Target, document: Document) -> None:
    """Raise :class:`BadFileError` for the first thing in a target file that cannot be meant."""
    _check_texts(document)
    for where, template, known in _templates(target):
        _check_placeholders(document.path, where, template, known)
    _check_addresses(target, document.path)
    _check_container(target, document.path)
    _check_instances(target, document.path)
    _check_clock(target, document.path)
    effects.check(target.target, document.path)
    _check_client(target, document.path)
    if target.target.consumer is not None:
        _check_payloads(target, document.path)
    if target.target.api is not None:
        _check_senders(target, document.path)
    dialect = target.target.provider.dialect
    if dialect.endswith((".yaml", ".yml")) and not Path(dialect).exists():
        raise BadFileError(
            document.path, f"{dialect!r} does not exist; check the path", where="target.provider.dialect"
        )
    try:
        dialects.load(dialect)
    except BadFileError as error:
        raise _at(error, document.path, "target.provider.dialect") from None


def contract(name: str, folder: Path, file: str | None) -> Contract:
    """Read a contract; ``file`` is the target file that names it, when one does."""
    try:
        path = contracts.find(name, relative_to=folder)
    except BadFileError as error:
        raise (error if file is None else _at(error, file, "target.contract")) from None
    if file is not None and not path.exists():
        raise BadFileError(
            file, f"{name!r} does not exist; its path starts at this file's folder", where="target.contract"
        )
    found = contracts.load(name, relative_to=folder)
    for rule in found.levels:
        if rule not in RULES:
            raise BadFileError(shown(path), f"{rule!r} is no rule; {nearest(rule, RULES)}", where=f"levels.{rule}")
    return found


def check_request(target: Target, contract: Contract) -> None:
    """Raise :class:`BadFileError` when the effective request cannot carry a mail that is told from others."""
    api = target.target.api
    if api is None:
        return
    known = set(placeholders.PER_REQUEST)
    for sender in api.senders.values():
        known |= sender.values.keys()
    own = {name for name in ("path", "headers", "body") if getattr(api.request, name) is not None}
    for name, route in {"request": contract.request, **_others(contract)}.items():
        for part in ("path", "headers", "body"):
            file, where = _whose(target, contract, name, part, own)
            _check_placeholders(file, where, getattr(route, part), known)
    request = contract.request
    file, where = _whose(target, contract, "request", "body", own)
    found = placeholders.names(request.body) | placeholders.names(request.path)
    if "to" not in found:
        raise BadFileError(file, "{to} is missing; put it where the recipient goes", where=where)
    if not found & {"subject", "text"}:
        raise BadFileError(
            file,
            "{subject} is missing, and {text} too; put one where the content goes, so that two mails differ",
            where=where,
        )


def check_remote(target: Target, path: Path | None, allow_remote: bool) -> None:
    """Refuse to send to another machine unless that was asked for; ``path`` is None for ``--url``."""
    body = target.target
    if allow_remote or (body.role == "api" and body.api is not None and body.api.allow_remote):
        return
    also = " or target.api.allow_remote = true" if body.role == "api" else ""
    file = "--url" if path is None else shown(path)
    client = body.client if body.role == "client" else None
    for where, url in (
        ("target.api.url", body.api.url if body.role == "api" and body.api else None),
        ("target.consumer.url", body.consumer.url if body.role == "consumer" and body.consumer else None),
        ("target.client.url", client.url if client else None),
        ("target.client.outcome.url", client.outcome.url if client and client.outcome else None),
        ("target.clock.url", body.clock.url if body.clock and body.clock.kind == "http" else None),
        ("target.webhooks.url", body.webhooks.url if body.webhooks else None),
        *effects.addresses(body),
    ):
        if url is not None and not is_loopback(_filled(url)):
            raise not_allowed(url, file, where="" if path is None else where, also=also)


def _check_client(target: Target, file: str) -> None:
    """How a client is asked: by an address that can be, of something that is there."""
    body = target.target
    client = body.client
    if client is None:
        return
    if client.in_process:
        raise BadFileError(
            file,
            "is for a function of a test; give a command, or the url of a worker",
            where="target.client.in_process",
        )
    for where, url in (("url", client.url), ("outcome.url", client.outcome.url if client.outcome else None)):
        if url is None:
            continue
        if not is_address(_filled(url)):
            raise BadFileError(
                file, f"{url!r} is no http address; write http://127.0.0.1:{{port}}/...", where=f"target.client.{where}"
            )
        if "{port}" in url and not body.started:
            raise BadFileError(
                file,
                "{port} is given to what is started here; add [target.start], or write the port of what runs",
                where=f"target.client.{where}",
            )


def is_address(url: str) -> bool:
    """Whether a URL is http or https, with a host and a port that can be."""
    try:
        given = urlsplit(url)
        return given.scheme in ("http", "https") and bool(given.hostname) and given.port != 0
    except ValueError:
        return False


def shown(path: Path) -> str:
    """Return a path as a person would type it here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# -- the texts of a file -------------------------------------------------------------------------------------------


def _check_texts(document: Document) -> None:
    for where, text in _texts(document.data, ()):
        if "\0" in text:
            raise BadFileError(document.path, "has a NUL character, which no program can be given", where=where)
        for name in sorted(placeholders.names(text)):
            if name.startswith("env:") and os.environ.get(name[4:]) is None:
                raise BadFileError(
                    document.path,
                    f"the environment variable {name[4:]} is not set; set it, or take {{{name}}} out",
                    where=where,
                )


def _texts(data: Any, loc: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(data, str):
        yield ".".join(loc), data
    elif isinstance(data, dict):
        for name, item in data.items():
            yield from _texts(name, loc)
            yield from _texts(item, (*loc, name))
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _texts(item, (*loc, str(number)))


def _templates(target: Target) -> Iterator[Place]:
    body = target.target
    ports = {f"port.{p.name}" for p in body.processes}
    ports |= {f"port.{p.name}.{n}" for p in body.processes if p.replicas > 1 for n in range(1, p.replicas + 1)}
    at_start = set(placeholders.AT_START) | ports | {f"store.{name}" for name in body.store}
    per_request = set(placeholders.PER_REQUEST)
    for i, process in enumerate(body.processes):
        where = "target.start" if body.start else f"target.process.{i}"
        yield f"{where}.env", process.env, at_start
        yield f"{where}.command", process.command, at_start
    if body.container is not None:
        inside = at_start - {"python", "folder", "clock_offset"}  # these are of this machine's files, or change
        yield "target.container.env", body.container.env, inside
        yield "target.container.command", body.container.command, inside
    for name, store in body.store.items():
        yield f"target.store.{name}.upstream", store.upstream, ports
    if body.api is not None:
        api = body.api
        for sender in api.senders.values():
            per_request |= sender.values.keys()
        yield "target.api.url", api.url, at_start
        yield "target.api.headers", api.headers, at_start | per_request
        yield "target.api.request.recipient", api.request.recipient, {"token"}
        yield "target.api.request.body", api.request.body, per_request
        yield "target.api.request.path", api.request.path, per_request
        yield "target.api.request.headers", api.request.headers, per_request
        for name, request in api.routes.items():
            for part in ("body", "path", "headers"):
                yield f"target.api.routes.{name}.{part}", getattr(request, part), per_request
        for name, sender in api.senders.items():
            yield f"target.api.senders.{name}", sender.headers, at_start | per_request
            yield f"target.api.senders.{name}.values", sender.values, at_start
    if body.client is not None:
        yield "target.client.command", body.client.command, at_start | per_request
        yield "target.client.env", body.client.env, at_start | per_request
        yield "target.client.url", body.client.url, at_start | per_request
        yield "target.client.headers", body.client.headers, at_start | per_request
        yield "target.client.body", body.client.body, per_request
        outcome = body.client.outcome
        if outcome is not None:
            yield "target.client.outcome.url", outcome.url, at_start | per_request
            yield "target.client.outcome.headers", outcome.headers, at_start | per_request
            yield "target.client.outcome.command", outcome.command, at_start | per_request
    if body.consumer is not None:
        yield "target.consumer.url", body.consumer.url, at_start
        yield "target.consumer.secret", body.consumer.secret, at_start
    if body.clock is not None:
        yield "target.clock.url", body.clock.url, at_start
        yield "target.clock.headers", body.clock.headers, at_start
        yield "target.clock.body", body.clock.body, {"seconds"}
        yield "target.clock.command", body.clock.command, at_start | {"seconds"}
    if body.webhooks is not None:
        yield "target.webhooks.url", body.webhooks.url, at_start
        yield "target.webhooks.secret", body.webhooks.secret, at_start
    yield from effects.templates(body, at_start)
    for name, call in body.calls.items():
        yield f"target.calls.{name}.path", call.path, {"id"}
        yield f"target.calls.{name}.body", call.body, {"id"}
        yield f"target.calls.{name}.headers", call.headers, at_start


def _check_placeholders(file: str, where: str, template: Any, known: set[str]) -> None:
    try:
        placeholders.check(template, frozenset(known))
    except placeholders.UnknownPlaceholderError as error:
        raise BadFileError(file, str(error), where=where) from None


def _check_container(target: Target, file: str) -> None:
    """What a container is made of must be there, and its port known where the engine publishes it."""
    body = target.target
    container = body.container
    if container is None:
        return
    for name, path in (("build", container.build), ("compose", container.compose)):
        if path is not None and not (Path(file).parent / path).exists():
            where = f"target.container.{name}"
            raise BadFileError(file, f"{path!r} does not exist; its path starts at this file's folder", where=where)
    url = getattr(body, body.role).url or ""
    if container.compose and container.network != "host" and container.port is None and "{port}" in url:
        raise BadFileError(
            file,
            "is missing; say where the service listens, so that {port} leads there, or name the port that the compose "
            "file publishes in the target's url",
            where="target.container.port",
        )


def _check_clock(target: Target, file: str) -> None:
    """Whose clock a kind cannot move: what is not started here, or started anew for each operation."""
    body = target.target
    if body.clock is None or body.clock.kind not in ("faketime", "restart"):
        return
    whose = None
    if body.container is not None:
        whose = "a container's is moved by http or command"
    elif body.role == "client" and body.clock.kind == "faketime" and body.client is not None and body.client.command:
        whose = "a client's program is started for each operation, and its clock is moved by restart, http or command"
    if whose is not None:
        raise BadFileError(
            file, f"{body.clock.kind!r} moves the clock of a process here; {whose}", where="target.clock.kind"
        )


def _check_payloads(target: Target, file: str) -> None:
    """An event must say whose it is: the mail that it is to cause is known by the address and the text in it."""
    consumer = target.target.consumer
    assert consumer is not None
    try:
        consumer.read(Path(file).parent)
    except BadFileError as error:
        if error.path != "event":
            raise  # a mistake within the payload, which names itself
        raise BadFileError(file, error.message, where="target.consumer.event") from None
    if "from" not in consumer.says:
        raise BadFileError(
            file,
            f"{consumer.event} has no {{from}}; put it where the sender's address goes, for the mail goes there",
            where="target.consumer.event",
        )


def _check_instances(target: Target, file: str) -> None:
    """Instances on one port cannot be, and behind one address an attempt could not choose between them."""
    body = target.target
    url, where = (body.api.url, "target.api.url") if body.api else ("", "")
    if body.consumer is not None:
        url, where = body.consumer.url, "target.consumer.url"
    if body.replicas > 1 and url and "{port}" not in url:
        raise BadFileError(
            file,
            f"{url!r} is one address for {body.replicas} instances, which have a port each; write http://127.0.0.1:"
            "{port}",
            where=where,
        )


# -- addresses and senders -----------------------------------------------------------------------------------------


def _check_addresses(target: Target, file: str) -> None:
    body = target.target
    for where, url in (
        ("target.api.url", body.api.url if body.api else None),
        ("target.consumer.url", body.consumer.url if body.consumer else None),
        ("target.clock.url", body.clock.url if body.clock and body.clock.kind == "http" else None),
        ("target.webhooks.url", body.webhooks.url if body.webhooks else None),
        ("target.effects.http", body.effects.http if body.effects else None),
    ):
        if url is not None and not is_address(_filled(url)):
            raise BadFileError(file, f"{url!r} is no http address; write http://127.0.0.1:{{port}}", where=where)


def _filled(url: str) -> str:
    """Return a URL as it can look when the target runs: whatever is filled in at the start is a port here."""
    return re.sub(r"\{[a-z][a-z_.0-9-]*\}", "1", placeholders.fill_text(url, {}))


def _check_senders(target: Target, file: str) -> None:
    """A sender that is like ``main`` on the wire is main: what it is not shown would be nobody's secret."""
    api = target.target.api
    assert api is not None
    main = api.senders.get("main")
    headers, values = (main.headers, main.values) if main else ({}, {})
    for name, sender in api.senders.items():
        where = f"target.api.senders.{name}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            raise BadFileError(file, f"{name!r} is no name; use a-z, 0-9 and -", where="target.api.senders")
        same = {**api.headers, **sender.headers} == {**api.headers, **headers} and sender.values == values
        if same and name.startswith("other-"):
            what = "headers" if name in ("other-tenant", "other-credential") else "values"
            raise BadFileError(
                file, f"is the same sender as main; give it {what} of its own, or leave it out", where=where
            )


# -- the request -----------------------------------------------------------------------------------------------------


def _others(contract: Contract) -> dict[str, Route]:
    return {f"routes.{name}": route for name, route in contract.routes.items()}


def _whose(target: Target, contract: Contract, route: str, part: str, own: set[str]) -> tuple[str, str]:
    """Return the file and the place of a part of the request: the target's own, or the contract's."""
    if route == "request" and part in own:
        return target.file, f"target.api.request.{part}"
    return f"contract {contract.name}", f"{route}.{part}"


def _at(error: BadFileError, file: str, where: str) -> BadFileError:
    """Return an error of what a file names as an error of the place that names it."""
    if error.path not in ("contract", "dialect"):
        return error  # a mistake within the other file, which names itself
    return BadFileError(file, error.message, where=where)
