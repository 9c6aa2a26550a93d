"""A mail API made idempotent with fastapi-idempotency-key on Redis, set up as its README shows."""

import os
from typing import Annotated

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi_idempotency_key import IdempotencyMiddleware, RedisBackend
from pydantic import BaseModel, Field

Text = Annotated[str, Field(min_length=1)]
Address = Annotated[str, Field(pattern="@")]


class Mail(BaseModel):
    """What a caller sends."""

    sender: Address = Field(alias="from")
    to: Address | Annotated[list[Address], Field(min_length=1)]
    subject: Text
    text: Text


app = FastAPI()
app.add_middleware(IdempotencyMiddleware, backend=RedisBackend(redis_url=os.environ["REDIS_URL"]))
provider = httpx.AsyncClient(base_url=os.environ["MAIL_PROVIDER_URL"], timeout=5)


@app.exception_handler(RequestValidationError)
async def refuse(_request: Request, error: RequestValidationError) -> JSONResponse:
    """Say in our own shape what is wrong with a request."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    return JSONResponse({"error": f"{place}: {problem['msg']}"}, status_code=422)


@app.get("/healthz")
async def healthz() -> dict[str, bool]:
    """Tell that the server is up."""
    return {"ok": True}


@app.post("/emails")
async def send(mail: Mail) -> JSONResponse:
    """Hand the mail to the provider, once, and wait for its answer."""
    to = [mail.to] if isinstance(mail.to, str) else mail.to
    message = {"from": mail.sender, "to": to, "subject": mail.subject, "text": mail.text}
    try:
        answer = await provider.post("/emails", json=message)
    except httpx.HTTPError as error:
        return JSONResponse({"error": f"mail provider: {error!r}"}, status_code=502)
    if not answer.is_success:
        return JSONResponse({"error": f"mail provider: status {answer.status_code}"}, status_code=502)
    return JSONResponse({"id": answer.json()["id"]})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
