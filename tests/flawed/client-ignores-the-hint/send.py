"""Retries every refusal, though the API says that it is of no use."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    PATH = "/v1/messages"

    def read(self, answer):
        error = answer.get("error") or {}
        if error.get("type") == "idempotency_error":
            return "conflict"
        return "running" if error.get("code") == "idempotency_key_in_use" else super().read(answer)

    def again(self, kind, answer):
        return kind == "refused" or super().again(kind, answer)


main(Flawed)
