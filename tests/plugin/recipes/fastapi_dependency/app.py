"""An application that sends a receipt, and gets what sends it by a dependency."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel

app = FastAPI()


class Order(BaseModel):
    id: str
    email: str
    subject: str
    text: str


class Mailer:
    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api

    async def send(self, key: str, mail: dict[str, Any]) -> bool | None:
        """True: sent; False: refused; None: nobody knows."""
        for _ in range(3):
            try:
                answer = await self.api.post("/emails", json=mail, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                continue
            if answer.status_code == 200:
                return True
            if 400 <= answer.status_code < 500 and "concurrent" not in answer.text:
                return False
        return None


async def mailer() -> AsyncIterator[Mailer]:
    async with httpx.AsyncClient(base_url="https://api.resend.com") as api:
        yield Mailer(api)


@app.post("/orders/receipt")
async def receipt(order: Order, mailer: Annotated[Mailer, Depends(mailer)]) -> dict[str, str]:
    mail = {"from": "shop@x.test", "to": [order.email], "subject": order.subject, "text": order.text}
    sent = await mailer.send(f"receipt-{order.id}", mail)
    if sent is None:
        raise HTTPException(504, "nobody knows whether the receipt is out")
    if not sent:
        raise HTTPException(422, "the receipt was refused")
    return {"receipt": "sent"}
