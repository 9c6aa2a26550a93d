"""Stripe's SDK with the retries that its readme tells to turn on, which adds a key by itself."""

import os
import sys

import stripe

SENT, NOT_SENT, UNKNOWN = 0, 1, 75

client = stripe.StripeClient(
    "sk_test_123",
    base_addresses={"api": os.environ["API_URL"]},
    max_network_retries=2,
    http_client=stripe.RequestsClient(timeout=3),
)
mail = {
    "from": "shop@acme.example",
    "to": os.environ["TO"],
    "subject": os.environ["SUBJECT"],
    "text": os.environ["TEXT"],
}
try:
    response = client.raw_request("post", "/v1/messages", **mail)
except (stripe.APIConnectionError, stripe.APIError) as error:
    print(error)
    sys.exit(UNKNOWN)
except stripe.StripeError as error:
    print(error)
    sys.exit(NOT_SENT)
print("sent", response.data["id"])
sys.exit(SENT)
