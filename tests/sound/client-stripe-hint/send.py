"""Believes the header that says whether a retry is of use, before the status."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Believing(Caller):
    PATH = "/v1/messages"

    def read(self, answer):
        error = answer.get("error") or {}
        if error.get("type") == "idempotency_error":
            return "conflict"
        return "running" if error.get("code") == "idempotency_key_in_use" else super().read(answer)

    def again(self, kind, answer):
        hint = answer.headers.get("Stripe-Should-Retry") if answer is not None else None
        return super().again(kind, answer) if hint is None else hint == "true"


main(Believing)
