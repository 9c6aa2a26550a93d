"""Code that calls a send API and keeps what a caller must, in one place for each decision: what a flaw gets wrong, it
overrides.

Standard library only, and nothing of the project under test. It is run for one operation: OPERATION, TO, SUBJECT, TEXT
and API_URL are in its environment, and its exit status says what became of the mail. What must outlive it is in the
file STATE, if there is one: the key, the body and the time of the first attempt, and the outcome. CLOCK_OFFSET are
seconds by which its clock is fast.

An answer is read as one of these: ``sent``; ``refused`` for good; ``conflict`` (the key is of another mail);
``pending`` (a person decides); ``busy`` (nothing was done, come back); ``running`` (the first attempt is not over);
``open`` (nobody knows), which is also what no answer, a cut one and a page of some proxy are.
"""

import email.utils
import gzip
import http.client
import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urljoin, urlsplit

SENT, NOT_SENT, UNKNOWN = 0, 1, 75


class NoConnection(Exception):
    """The request was certainly not sent."""


class Answer:
    """One answer, read whole."""

    def __init__(self, status, headers, body):
        self.status, self.headers = status, headers
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            self.data = json.loads(body)
        except ValueError:
            self.data = None

    def get(self, name):
        return self.data.get(name) if isinstance(self.data, dict) else None


class Caller:
    """Every decision is a method, every number a constant."""

    PATH, ATTEMPTS, TIMEOUT, LONGEST = "/emails", 5, 1.0, 30.0
    RETENTION = 86_400  # seconds: what is older is not sent again
    CONFLICT, RUNNING = ("invalid_idempotent_request",), ("concurrent_idempotent_requests",)
    CODE, ID = "name", "id"
    REDIRECTS = 2

    def __init__(self):
        read = (os.environ[name] for name in ("OPERATION", "TO", "SUBJECT", "TEXT"))
        self.operation, self.to, self.subject, self.text = read
        self.url = os.environ["API_URL"]
        self.may_be_out = False
        self.attempt = 0
        self.state_file = Path(os.environ["STATE"]) if os.environ.get("STATE") else None

    # -- what is sent ----------------------------------------------------------------------------------------------

    def key(self):
        """The key names the work, so that all attempts and all processes have the same one."""
        return f"shop-{self.operation}-mail"

    def fields(self):
        return {"from": "shop@house.example", "to": [self.to], "subject": self.subject, "text": self.text}

    def body(self, key):
        return json.dumps(self.fields()).encode()

    def content_type(self):
        return "application/json"

    def credential(self):
        return "Bearer key"

    def headers(self, key):
        found = {
            "Authorization": self.credential(),
            "Content-Type": self.content_type(),
            "User-Agent": "acme-shop/1.0",
        }
        return found if key is None else {**found, "Idempotency-Key": key}

    def target(self):
        """The address of this attempt."""
        return self.url.rstrip("/") + self.PATH

    def method(self):
        return "POST"

    # -- one attempt -----------------------------------------------------------------------------------------------

    def exchange(self, url, headers, body):
        """Send one request and read the whole answer; OSError and the like when there is none."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self.TIMEOUT)
        try:
            connection.connect()
        except OSError as problem:
            raise NoConnection from problem
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request(self.method(), target, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def request(self, key, body):
        """One attempt, with the redirects that keep the method, the key and the body."""
        url = self.target()
        for _ in range(self.REDIRECTS + 1):
            answer = self.exchange(url, self.headers(key), body)
            if answer.status not in (307, 308):
                break
            place = urljoin(url, answer.headers.get("Location", ""))
            if not self.follows(url, place):
                break
            url = place
        return answer

    def follows(self, url, place):
        return urlsplit(url).netloc == urlsplit(place).netloc

    # -- what an answer means --------------------------------------------------------------------------------------

    def read(self, answer):
        code = answer.get(self.CODE)
        if 200 <= answer.status < 300:
            if answer.status == 202:
                return "pending" if answer.data else "open"
            return "sent" if answer.get(self.ID) else "open"
        if code in self.CONFLICT:
            return "conflict"
        if code in self.RUNNING:
            return "running"
        if answer.status == 429:
            return "busy"
        if 300 <= answer.status < 400:
            return "refused"  # elsewhere, where the key is not known
        return "refused" if 400 <= answer.status < 500 and answer.status != 408 else "open"

    def ask(self, key, body):
        """One attempt: how it is read, and the answer if there was a whole one."""
        try:
            answer = self.request(key, body)
        except NoConnection:
            return "busy", None
        except (OSError, EOFError, http.client.HTTPException):
            return "open", None  # none, or a cut one
        return self.read(answer), answer

    def pause(self, kind, answer):
        """Seconds before the next attempt: what the server asks for, within reason, or a growing pause."""
        asked = self.asked(answer) if answer is not None else None
        return min(2.0, 0.05 * 2**self.attempt) if asked is None else min(self.LONGEST, max(0.0, asked))

    def asked(self, answer):
        text = answer.headers.get("Retry-After")
        try:
            return None if text is None else float(text)
        except ValueError:
            pass
        try:
            return email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None

    def again(self, kind, answer):
        """Whether another attempt is of use."""
        return kind in ("busy", "running", "open")

    # -- what is said of it ----------------------------------------------------------------------------------------

    def says(self, kind):
        if kind == "sent":
            return SENT
        if kind in ("refused", "conflict", "busy") and not self.may_be_out:
            return NOT_SENT
        return UNKNOWN

    # -- what outlives it ------------------------------------------------------------------------------------------

    def recall(self):
        if self.state_file is None or not self.state_file.exists():
            return {}
        return json.loads(self.state_file.read_text()).get(self.operation, {})

    def remember(self, record):
        if self.state_file is None:
            return
        known = json.loads(self.state_file.read_text()) if self.state_file.exists() else {}
        known[self.operation] = record
        fresh = self.state_file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known))
        fresh.replace(self.state_file)

    # -- the operation ---------------------------------------------------------------------------------------------

    def run(self):
        record = self.recall()
        if record.get("outcome") is not None:
            return record["outcome"]
        if not record:
            key = self.key()
            record = {"key": key, "body": self.body(key).decode(), "at": self.now()}
            self.remember(record)
        elif self.now() - record["at"] > self.RETENTION:
            return UNKNOWN  # the key may be forgotten: somebody has to look
        outcome = self.send(record["key"], record["body"].encode())
        if outcome != UNKNOWN:
            self.remember({**record, "outcome": outcome})
        return outcome

    def now(self):
        return time.time() + float(os.environ.get("CLOCK_OFFSET", 0))

    def send(self, key, body):
        wait = 0.0
        kind = "busy"
        while self.attempt < self.ATTEMPTS:
            time.sleep(wait)
            kind, answer = self.ask(key, body)
            self.attempt += 1
            if key is not None and kind == "refused" and answer.status not in (401, 429) and answer.status >= 400:
                self.may_be_out = False  # under this key nothing was ever done
            elif kind in ("open", "running"):
                self.may_be_out = True
            if not self.again(kind, answer):
                break
            wait = self.pause(kind, answer)
        return self.says(kind)


class Postfleet(Caller):
    """The key is a field of the body."""

    PATH, CODE, ID = "/api/v1/send", "code", "id"
    CONFLICT, RUNNING = ("idempotency_conflict",), ("idempotency_in_progress",)

    def fields(self):
        return {"mailbox_id": "mb_1", "to": self.to, "subject": self.subject, "text": self.text}

    def body(self, key):
        return json.dumps({**self.fields(), **({} if key is None else {"client_id": key})}).encode()

    def headers(self, key):
        return super().headers(None)


class Postmark(Caller):
    """Takes no key: what may be out is never tried again, and what another process has begun is not begun."""

    PATH, CODE, ID = "/email", "ErrorCode", "MessageID"

    def key(self):
        return None

    def fields(self):
        return {"From": "shop@house.example", "To": self.to, "Subject": self.subject, "TextBody": self.text}

    def again(self, kind, answer):
        return kind == "busy"

    def run(self):
        if self.state_file is not None:
            try:
                self.state_file.with_suffix(f".{self.operation}").touch(exist_ok=False)
            except FileExistsError:
                return self.recall().get("outcome", UNKNOWN)
        return super().run()


def main(caller):
    sys.exit(caller().run())


if __name__ == "__main__":
    main(Caller)
