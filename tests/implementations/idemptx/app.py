"""A mail API made idempotent with idemptx on Redis, set up as its README shows."""

import os
from typing import Annotated

import httpx
import redis
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from idemptx import idempotent
from idemptx.backend import RedisBackend
from idemptx.exceptions import IdempotencyConflictException, MissingKeyException
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
redis_backend = RedisBackend(redis.Redis.from_url(os.environ["REDIS_URL"]))
provider = httpx.AsyncClient(base_url=os.environ["MAIL_PROVIDER_URL"], timeout=5)


@app.exception_handler(RequestValidationError)
async def refuse(_request: Request, error: RequestValidationError) -> JSONResponse:
    """Say in our own shape what is wrong with a request."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    return JSONResponse({"error": f"{place}: {problem['msg']}"}, status_code=422)


# As the project's own tests map its exceptions; without a handler they are answered 500.
@app.exception_handler(MissingKeyException)
async def missing_key(_request: Request, error: MissingKeyException) -> JSONResponse:
    """Say that a key is required."""
    return JSONResponse({"error": str(error)}, status_code=400)


@app.exception_handler(IdempotencyConflictException)
async def conflict(_request: Request, error: IdempotencyConflictException) -> JSONResponse:
    """Say that the key was used for something else, or that the first request under it still runs."""
    return JSONResponse({"error": str(error)}, status_code=409)


@app.get("/healthz")
async def healthz() -> dict[str, bool]:
    """Tell that the server is up."""
    return {"ok": True}


@app.post("/emails")
@idempotent(storage_backend=redis_backend)
async def send(request: Request, mail: Mail) -> JSONResponse:
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
