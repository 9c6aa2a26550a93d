"""Two workers take the same job from a queue that delivers at least once. Both use the job's key, so it does not
matter who is first; each stops at a conflict, and keeps asking while it does not know."""

import http.client
import json
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

SENT, NOT_SENT, UNKNOWN = 0, 1, 75


def post(body):
    url = urlsplit(os.environ["API_URL"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=5)
    headers = {
        "Authorization": f"Bearer {os.environ.get('API_KEY', 'key')}",
        "Content-Type": "application/json",
        "User-Agent": "acme-shop/1.0",
        "Idempotency-Key": f"shop-{os.environ['OPERATION']}-mail",
    }
    try:
        connection.request("POST", url.path.rstrip("/") + "/emails", body, headers)
        response = connection.getresponse()
        return response.status, dict(json.loads(response.read()))
    finally:
        connection.close()


def work():
    fields = {"from": "shop@house.example", "to": [os.environ["TO"]]}
    body = json.dumps({**fields, "subject": os.environ["SUBJECT"], "text": os.environ["TEXT"]})
    for attempt in range(6):
        time.sleep(0.1 * 2**attempt if attempt else 0)
        try:
            status, answer = post(body)
        except (OSError, http.client.HTTPException, ValueError, TypeError):
            continue  # no answer, or a cut one
        if status == 200 and answer.get("id"):
            return SENT
        if answer.get("name") == "invalid_idempotent_request":
            return UNKNOWN  # a person has to look
        if 400 <= status < 500 and status != 429 and answer.get("name") != "concurrent_idempotent_requests":
            return NOT_SENT
    return UNKNOWN


if len(sys.argv) > 1:
    sys.exit(work())
workers = [subprocess.Popen([sys.executable, __file__, "worker"]) for _ in range(2)]
told = {worker.wait() for worker in workers}
sys.exit(SENT if SENT in told else UNKNOWN if UNKNOWN in told else NOT_SENT)
