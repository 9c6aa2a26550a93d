"""What a project under test has: a function that sends a receipt over HTTP, sound unless it is asked not to be."""

import uuid
from collections.abc import Callable
from typing import Any

import httpx

Key = str | Callable[[], str]


class RefusedError(Exception):
    """The API refused the mail; sending it again would not help."""


class UnknownOutcomeError(Exception):
    """The mail may be out."""


def request(to: str, subject: str = "Receipt", text: str = "Thank you.", sender: str = "shop@x.test") -> dict[str, Any]:
    return {"from": sender, "to": [to], "subject": subject, "text": text}


def send(url: str, body: dict[str, Any], key: Key, *, attempts: int = 3, client: httpx.Client | None = None) -> str:
    """Send one mail with the same key and bytes each time."""
    post = httpx.post if client is None else client.post
    for _ in range(attempts):
        headers = {"Authorization": "Bearer re_test", "Idempotency-Key": key() if callable(key) else key}
        try:
            answer = post(f"{url}/emails", json=body, headers=headers, timeout=2.0)
        except httpx.TransportError:
            continue
        if answer.status_code == 200 and answer.headers["Content-Type"] == "application/json":
            try:
                return str(answer.json()["id"])
            except (ValueError, KeyError):
                continue
        if answer.status_code in (400, 401, 403, 404, 422) or "invalid_idempotent" in answer.text:
            raise RefusedError(answer.text)
    raise UnknownOutcomeError


async def send_async(url: str, body: dict[str, Any], key: Key, *, attempts: int = 3) -> str:
    """The same for asyncio and trio."""
    async with httpx.AsyncClient(timeout=2.0) as client:
        for _ in range(attempts):
            headers = {"Authorization": "Bearer re_test", "Idempotency-Key": key() if callable(key) else key}
            try:
                answer = await client.post(f"{url}/emails", json=body, headers=headers)
            except httpx.TransportError:
                continue
            if answer.status_code == 200:
                return str(answer.json()["id"])
    raise UnknownOutcomeError


def fresh_key() -> str:
    """What a flawed caller uses for each attempt."""
    return str(uuid.uuid4())
