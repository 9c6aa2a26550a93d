"""A mail API made idempotent with django-idempotency-key, set up as its README shows."""

import json
import os
import secrets

import httpx
import waitress
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    MIDDLEWARE=["idempotency_key.middleware.IdempotencyKeyMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=secrets.token_hex(),
)
provider = httpx.Client(base_url=os.environ["MAIL_PROVIDER_URL"], timeout=5)


def message_in(body: bytes) -> dict[str, str | list[str]]:
    """Read the mail a caller sent; ValueError says what is wrong with it."""
    mail = json.loads(body)
    if not isinstance(mail, dict):
        raise ValueError("not a JSON object")
    to = mail.get("to")
    to = to if isinstance(to, list) else [to]
    for name in ("from", "subject", "text"):
        if not isinstance(mail.get(name), str) or not mail[name]:
            raise ValueError(f"{name}: required")
    if not to or not all(isinstance(address, str) and "@" in address for address in [*to, mail["from"]]):
        raise ValueError("from, to: need addresses")
    return {"from": mail["from"], "to": to, "subject": mail["subject"], "text": mail["text"]}


@require_GET
def healthz(_request: HttpRequest) -> JsonResponse:
    """Tell that the server is up."""
    return JsonResponse({"ok": True})


@require_POST
def send(request: HttpRequest) -> JsonResponse:
    """Hand the mail to the provider, once, and wait for its answer."""
    try:
        message = message_in(request.body)
    except ValueError as error:
        return JsonResponse({"error": str(error)}, status=422)
    try:
        answer = provider.post("/emails", json=message)
    except httpx.HTTPError as error:
        return JsonResponse({"error": f"mail provider: {error!r}"}, status=502)
    if not answer.is_success:
        return JsonResponse({"error": f"mail provider: status {answer.status_code}"}, status=502)
    return JsonResponse({"id": answer.json()["id"]})


urlpatterns = [path("healthz", healthz), path("emails", send)]

if __name__ == "__main__":
    waitress.serve(get_wsgi_application(), host="127.0.0.1", port=int(os.environ["PORT"]), threads=32)
