"""The contract that a run reads: the target's, with the target file's own requests and answers laid over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.contracts import AnswerClass, Contract
from sendtwice.fake_provider.contracts.model import AnswerShape, Route
from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness import target_checks
from sendtwice.harness.target import Target
from sendtwice.harness.target_roles import ApiAnswer, ApiRequest


def effective_contract(target: Target, folder: Path, name: str | None = None) -> Contract:
    """Return the contract with the target's own request and answers laid over it.

    ``name`` is judged by instead of the target's own, over the target's own wire. The request that comes of it must
    carry what a mail is told by: see :func:`target_checks.check_request`.
    """
    contract = target_checks.contract(name or target.target.contract, folder, None if name else target.file)
    if name is not None and name != target.target.contract and target.target.role == "api":
        contract = on_the_wire_of(contract, target_checks.contract(target.target.contract, folder, target.file))
    api = target.target.api
    if api is None:
        return contract
    request, answer = api.request, api.answer
    changed: dict[str, Any] = {
        name: value for name in ("method", "path", "headers", "body") if (value := getattr(request, name)) is not None
    }
    update: dict[str, Any] = {}
    if changed:
        update["request"] = contract.request.model_copy(update=changed)
    if api.routes:
        update["routes"] = {**contract.routes, **dict(_own_routes(contract, api.routes, target.file))}
    if request.key is not None:
        update["key"] = contracts.model.Key.model_validate(
            {**contract.key.model_dump(by_alias=True), "at": request.key}
        )
    if answer.id is not None or answer.accepted is not None:
        update["answers"] = {**contract.answers, **dict(_laid_over(contract, answer))}
    effective = contract.model_copy(update=update)
    if target.target.role == "api":
        target_checks.check_request(target, effective)
    return effective


_SUCCESS = (AnswerClass.ACCEPTED, AnswerClass.REPLAYED)


def on_the_wire_of(promises: Contract, wire: Contract) -> Contract:
    """Return one contract's promises, asked for as another's requests are written.

    So an implementation of one vendor's contract can be held against another's: how to reach it is its own, what it
    must keep and answer is the other's.
    """
    if wire.name in ("universal", "generic"):
        return promises  # it says nothing of a wire of its own
    place = {"at": wire.key.at, "also_at": wire.key.also_at, "first_sent": wire.key.first_sent}
    routes = {
        name: route.model_copy(update={"answers": {}} if name not in promises.routes else {})
        for name, route in wire.routes.items()
    }
    update: dict[str, Any] = {
        "request": wire.request,
        "routes": routes,
        "mail": wire.mail,
        "dry_run": wire.dry_run,
        "key": promises.key.model_copy(update=place),
        # How its own successes look is no promise of the other's: the difference is told once, not in every scenario.
        "answers": {
            kind: [*shapes, *(wire.shapes(kind) if kind in _SUCCESS else ())]
            for kind, shapes in promises.answers.items()
        },
    }
    if promises.batch is not None:
        update["batch"] = promises.batch.model_copy(update={"route": wire.batch.route}) if wire.batch else None
    return promises.model_copy(update=update)


def assumed_key(target: Target, contract: Contract) -> str | None:
    """Return the place of the key when nobody said it: neither the target file nor the contract."""
    api = target.target.api
    if target.target.role != "api" or api is None or api.request.key is not None or contract.key.presence.says("none"):
        return None
    return None if "at" in contract.key.model_fields_set else contract.key.at


def _own_routes(contract: Contract, given: dict[str, ApiRequest], file: str) -> Iterator[tuple[str, Route]]:
    """Return the target's own ways to ask for what other routes of the contract do, or routes that it has besides."""
    for name, request in given.items():
        parts = {part: getattr(request, part) for part in ("method", "path", "headers", "body")}
        changed = {part: value for part, value in {**parts, "key_at": request.key}.items() if value is not None}
        if name not in contract.routes and "path" not in changed:
            raise BadFileError(
                file, f"contract {contract.name} has no such route; give it a path", where=f"target.api.routes.{name}"
            )
        base = contract.routes.get(name, contract.request)
        yield name, base.model_copy(update=changed)


def _laid_over(contract: Contract, answer: ApiAnswer) -> Iterator[tuple[AnswerClass, list[AnswerShape]]]:
    for kind in (AnswerClass.ACCEPTED, AnswerClass.REPLAYED):
        shapes = []
        for shape in contract.shapes(kind):
            statuses = shape.status
            if answer.accepted is not None:
                own = [] if kind is AnswerClass.ACCEPTED else shape.status
                statuses = [*own, *(status for status in answer.accepted if status not in own)]
            shapes.append(shape.model_copy(update={"status": statuses, "id": answer.id or shape.id}))
        yield kind, shapes
