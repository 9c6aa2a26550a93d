"""Follows a redirect with the body, and without the headers of its own."""

import sys

sys.path.insert(0, "../../targets_common")
from caller import Caller, main


class Flawed(Caller):
    def exchange(self, url, headers, body):
        answer = super().exchange(url, headers, body)
        if answer.status in (307, 308):
            headers.pop("Idempotency-Key", None)
        return answer

    def headers(self, key):
        if not hasattr(self, "sent") or self.sent[0] != self.attempt:
            self.sent = (self.attempt, super().headers(key))
        return self.sent[1]


main(Flawed)
