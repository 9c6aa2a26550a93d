"""What the scripts in this folder share: mails come as JSON on standard input, one line of outcome goes out for each.

A line is ``{"id": ...}``, or ``{"error": CLASS, "status": ..., "code": ...}`` when the SDK raised it.
"""

import json
import sys
from collections.abc import Callable
from typing import Any


def run(send: Callable[[dict[str, Any]], str | None], told: Callable[[Exception], dict[str, Any]]) -> None:
    """Send each mail; ``told`` says of an exception what the vendor's own fields in it say."""
    for mail in json.load(sys.stdin):
        try:
            outcome = {"id": send(mail)}
        except Exception as error:
            outcome = {"error": type(error).__name__, **told(error)}
        print(json.dumps(outcome), flush=True)
