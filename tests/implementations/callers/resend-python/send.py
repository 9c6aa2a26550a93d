"""Resend's SDK as its quick start has it, with an idempotency key that names the receipt."""

import os
import sys

import resend
from resend.http_client_requests import RequestsClient

SENT, NOT_SENT, UNKNOWN = 0, 1, 75

resend.default_http_client = RequestsClient(timeout=3)
params: resend.Emails.SendParams = {
    "from": "Acme <shop@acme.example>",
    "to": [os.environ["TO"]],
    "subject": os.environ["SUBJECT"],
    "text": os.environ["TEXT"],
}
options: resend.Emails.SendOptions = {"idempotency_key": f"receipt/{os.environ['OPERATION']}"}
try:
    email = resend.Emails.send(params, options)
except resend.exceptions.ResendError as error:
    print(error.code, error.error_type, error)
    sys.exit(UNKNOWN if int(error.code) >= 500 else NOT_SENT)
print("sent", email["id"])
sys.exit(SENT)
