"""httpx, and tenacity for the retries. The key is made in the function that is retried: the common mistake."""

import os
import sys
import uuid

import httpx
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential

SENT, NOT_SENT, UNKNOWN = 0, 1, 75


def transient(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


@retry(
    retry=retry_if_exception(transient), stop=stop_after_attempt(3), wait=wait_exponential(multiplier=0.2), reraise=True
)
def send() -> str:
    headers = {"Authorization": "Bearer re_123", "Idempotency-Key": str(uuid.uuid4())}
    mail = {
        "from": "shop@acme.example",
        "to": [os.environ["TO"]],
        "subject": os.environ["SUBJECT"],
        "text": os.environ["TEXT"],
    }
    response = httpx.post(f"{os.environ['API_URL']}/emails", json=mail, headers=headers, timeout=3)
    response.raise_for_status()
    return response.json()["id"]


try:
    print("sent", send())
except httpx.HTTPStatusError as error:
    print(error)
    sys.exit(UNKNOWN if error.response.status_code >= 500 else NOT_SENT)
except (httpx.HTTPError, ValueError) as error:
    print(error)
    sys.exit(UNKNOWN)
sys.exit(SENT)
