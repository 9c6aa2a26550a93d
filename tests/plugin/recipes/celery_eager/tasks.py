"""A task that sends a receipt, and is tried again by Celery."""

import os

import httpx
from celery import Celery

app = Celery("receipts", broker="memory://")


class UnknownOutcomeError(Exception):
    """The receipt may be out."""


@app.task(bind=True, autoretry_for=(UnknownOutcomeError,), max_retries=3, default_retry_delay=0)
def send_receipt(self, order_id, to, subject, text):
    mail = {"from": "shop@x.test", "to": [to], "subject": subject, "text": text}
    headers = {"Authorization": "Bearer re_123", "Idempotency-Key": f"receipt-{order_id}"}
    url = os.environ.get("RESEND_API_URL", "https://api.resend.com")
    try:
        answer = httpx.post(f"{url}/emails", json=mail, headers=headers, timeout=2)
    except httpx.TransportError as error:
        raise UnknownOutcomeError from error
    if answer.status_code >= 500 or "concurrent" in answer.text:
        raise UnknownOutcomeError(answer.text)
    answer.raise_for_status()
