"""A contract as an OpenAPI 3.1 document: every route with its key, its mail, and every answer that the emulator gives.

It describes what is served, so that tools which read such documents can drive it and hold it against what it says. Of
a status that a contract declares as a hundred (``4xx``) the one that the emulator answers with is named.
"""

from __future__ import annotations

from typing import Any

from sendtwice.fake_provider import openapi_answers as answers
from sendtwice.fake_provider import openapi_requests as requests
from sendtwice.fake_provider.contracts.model import SEND, Contract, Route

_SAYS = {
    "send": "Send a mail.",
    "draft": "Make a mail that waits.",
    "launch": "Send what waits.",
    "reject": "Do not send what waits.",
    "resolve": "Say what became of a mail whose outcome is unknown.",
    "reconcile": "Take in an event of the mail provider.",
    "read": "Tell the state of a message.",
    "nothing": "Of no effect on mail.",
}


def document(contract: Contract) -> dict[str, Any]:
    """Return the document of a contract."""
    paths: dict[str, dict[str, Any]] = {}
    for name, route in {SEND: contract.request, **contract.routes}.items():
        paths.setdefault(route.path, {}).setdefault(route.method.lower(), _operation(contract, name, route))
    about = [contract.summary.strip(), f"Source: {contract.source}." if contract.source else ""]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": contract.title,
            "version": contract.as_of or "1",
            "description": "\n\n".join(part for part in about if part),
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "ACCOUNT[:CREDENTIAL[:ENVIRONMENT]]; any will do, and none is an account too.",
                }
            }
        },
    }


def _operation(contract: Contract, name: str, route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": _SAYS[route.does],
        **({"description": route.note} if route.note else {}),
        "parameters": requests.parameters(contract, name, route),
        "responses": answers.responses(contract, name, route),
    }
    body = requests.body(contract, name, route)
    if body is not None:
        media = {"schema": body, **requests.examples(contract, name, route)}
        operation["requestBody"] = {"required": True, "content": {requests.content_type(route): media}}
    return operation
