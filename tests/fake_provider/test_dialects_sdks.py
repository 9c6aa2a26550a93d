"""The vendors' own SDKs, as they come: are they understood, and do they send twice by themselves?

Each SDK runs in a process of its own (``tests/sdks``), pointed here as its users would point it. What was seen of them,
in November 2026; ``attempts`` of one call when the first is answered so, or when its answer is lost after the commit:

==================  =======  ==========================  ====================  =========================================
SDK                 dialect  attempts after              mails after           what the caller is told of one
                             500  503  429  lost answer  lost: once / always   lost answer
==================  =======  ==========================  ====================  =========================================
boto3               ses        2    2    2   2           2 / 3                 the id of the second mail
@aws-sdk/...sesv2   ses        2    2    2   2           2 / 3                 the id of the second mail
cloudflare (Py)     ...flare   2    2    2   2           2 / 3                 the id of the second mail
mailgun (Py)        mailgun    2    2    2   2           2 / 4                 the id of the second mail
mailgun.js          mailgun    1    1    1   1           1 / 1                 an error of status 400, as if refused
postmark            postmark   1    1    1   1           1 / 1                 PostmarkError, status 0
resend (Node)       resend     1    1    1   1           1 / 1                 an error without a status
resend (Py)         resend     1    1    1   1           1 / 1                 ResendError of code 500
@sendgrid/mail      sendgrid   1    1    1   1           1 / 1                 ECONNRESET
sendgrid (Py)       sendgrid   1    1    1   1           1 / 1                 ConnectionResetError
==================  =======  ==========================  ====================  =========================================

The four that resend do so without a key that any of these vendors would know: that is two mails, and one id.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sendtwice.fake_provider import contracts
from sendtwice.fake_provider.attempts import Attempt
from sendtwice.fake_provider.faults import Fault, Place, Verb
from sendtwice.fake_provider.provider import FakeProvider
from tests.fake_provider.kit import provider
from tests.support import ROOT, missing

FOLDER = ROOT / "tests" / "sdks"
DEADLINE = 60.0


@dataclass(frozen=True)
class Sdk:
    """An SDK, and what is known of it. ``at_most``: the attempts of one call, and so its mails when no answer arrives.

    ``refusal``: what it raises when it is refused. ``lost``: what it says when one answer is lost; None: it resent.
    ``tells``: which parts of a resend can be seen on the wire.
    """

    dialect: str
    script: str
    refusal: dict[str, Any]
    lost: dict[str, Any] | None = None
    at_most: int = 1
    tells: frozenset[str] = field(default_factory=frozenset)

    @property
    def resends(self) -> bool:
        return self.at_most > 1


_AWS_REFUSAL = {"error": "BadRequestException", "status": 400, "code": "BadRequestException"}
_REFUSED = "The request was refused."
_AWS_TELLS = frozenset({"call", "resend"})

SDKS = {
    "boto3": Sdk("ses", "python/use_ses.py", _AWS_REFUSAL, at_most=3, tells=_AWS_TELLS),
    "aws-sdk-js": Sdk("ses", "node/use-ses.mjs", _AWS_REFUSAL, at_most=3, tells=_AWS_TELLS),
    "cloudflare-python": Sdk(
        "cloudflare",
        "python/use_cloudflare.py",
        {"error": "BadRequestError", "status": 400, "code": 10001},
        at_most=3,
        tells=frozenset({"resend"}),
    ),
    "mailgun-python": Sdk(
        "mailgun", "python/use_mailgun.py", {"error": "Refused", "status": 400, "code": _REFUSED}, at_most=4
    ),
    "mailgun-js": Sdk(
        "mailgun",
        "node/use-mailgun.mjs",
        {"error": "Error", "status": 400, "code": _REFUSED},
        {"error": "Error", "status": 400},
    ),
    "postmark-js": Sdk(
        "postmark",
        "node/use-postmark.mjs",
        {"error": "InvalidEmailRequestError", "status": 422, "code": 300},
        {"error": "PostmarkError", "status": 0},
    ),
    "resend-js": Sdk(
        "resend",
        "node/use-resend.mjs",
        {"error": "Returned", "status": 422, "code": "validation_error"},
        {"error": "Returned", "status": None, "code": "application_error"},
    ),
    "resend-python": Sdk(
        "resend",
        "python/use_resend.py",
        {"error": "ValidationError", "status": 422, "code": "validation_error"},
        {"error": "ResendError", "status": 500, "code": "HttpClientError"},
    ),
    "sendgrid-js": Sdk(
        "sendgrid",
        "node/use-sendgrid.mjs",
        {"error": "Error", "status": 400, "code": _REFUSED},
        {"error": "Error", "code": "ECONNRESET"},
    ),
    "sendgrid-python": Sdk(
        "sendgrid",
        "python/use_sendgrid.py",
        {"error": "BadRequestsError", "status": 400, "code": _REFUSED},
        {"error": "ConnectionResetError"},
    ),
}
ALL = sorted(SDKS)
BY_DIALECT = {dialect: [name for name in ALL if SDKS[name].dialect == dialect] for dialect in contracts.names()}


def program(name: str) -> list[str]:
    """The command that runs an SDK's script; skips the test when the SDK is not installed."""
    script = FOLDER / SDKS[name].script
    home = script.parent
    runs = str(home / ".venv" / "bin" / "python") if script.suffix == ".py" else shutil.which("node")
    if not (home / ".installed").exists() or runs is None or not Path(runs).exists():
        missing(name, "the SDK is not installed; run tests/sdks/install.sh")
    return [runs, str(script)]


def mail(to: str, **more: Any) -> dict[str, Any]:
    return {"from": "shop@example.test", "to": [f"{to}@example.test"], "subject": "Grüße", "text": "Thanks", **more}


async def send(name: str, fake: FakeProvider, *mails: dict[str, Any], home: Path) -> list[dict[str, Any]]:
    """Have an SDK send mails, and return what it told its caller of each."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": "one",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "RESEND_API_KEY": "re_one",
        "PROVIDER_URL": fake.url,
        **fake.environment(),
    }
    process = await asyncio.create_subprocess_exec(
        *program(name), env=environment, stdin=-1, stdout=-1, stderr=-1, cwd=home
    )
    try:
        async with asyncio.timeout(DEADLINE):
            told, problem = await process.communicate(json.dumps(mails).encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    outcomes = [json.loads(line) for line in told.decode().splitlines()]
    assert len(outcomes) == len(mails), problem.decode()
    return outcomes


def attempts(fake: FakeProvider, to: str) -> list[Attempt]:
    address = f"{to}@example.test"
    return [attempt for attempt in fake.control.attempts.log if attempt.mail and address in attempt.mail.recipients]


def mails_to(fake: FakeProvider, to: str) -> int:
    return sum(delivery.recipient == f"{to}@example.test" for delivery in fake.ledger.deliveries)


@pytest.mark.parametrize("name", ALL)
def test_a_send_reaches_the_ledger_and_its_id_comes_back(name: str, tmp_path: Path) -> None:
    answered: list[Any] = []

    def observe(kind: str, /, **fields: Any) -> None:
        if kind == Place.PROVIDER_RESPONSE:
            answered.append(fields["response"])

    async def play() -> None:
        async with provider(SDKS[name].dialect, observe=observe) as fake:
            [told] = await send(name, fake, mail("ana", cc=["ben@example.test"]), home=tmp_path)
            [response] = answered
            assert told["id"]
            assert told["id"] in response.body.decode() + str(response.headers)
            sent = fake.ledger.deliveries[0].mail
            assert sent.recipients == ("ana@example.test", "ben@example.test")
            assert (sent.subject, sent.text) == ("Grüße", "Thanks")
            assert sent.sender.endswith("shop@example.test")
            assert fake.ledger.commits == 1

    asyncio.run(play())


@pytest.mark.parametrize("name", ALL)
def test_a_refusal_is_raised_as_the_vendors_own_and_not_repeated(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with provider(SDKS[name].dialect) as fake:
            fake.faults.arm(Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, "refused"))
            [told] = await send(name, fake, mail("ana"), home=tmp_path)
            assert told == SDKS[name].refusal
            assert (len(attempts(fake, "ana")), fake.ledger.commits) == (1, 0)

    asyncio.run(play())


@pytest.mark.parametrize("name", ALL)
def test_which_sdks_try_again_by_themselves(name: str, tmp_path: Path) -> None:
    sdk = SDKS[name]
    statuses = (500, 503, 429)

    async def play() -> None:
        async with provider(sdk.dialect) as fake:
            for status in statuses:
                fake.faults.arm(Fault(Place.PROVIDER_REQUEST, Verb.ANSWER, status, to=f"s{status}@example.test"))
            told = await send(name, fake, *(mail(f"s{status}") for status in statuses), home=tmp_path)
            seen = [(len(attempts(fake, f"s{status}")), mails_to(fake, f"s{status}")) for status in statuses]
            assert seen == [(2, 1) if sdk.resends else (1, 0)] * 3
            assert [bool(outcome.get("id")) for outcome in told] == [sdk.resends] * 3

    asyncio.run(play())


@pytest.mark.parametrize("name", ALL)
def test_which_sdks_make_two_mails_of_one_call_when_an_answer_is_lost(name: str, tmp_path: Path) -> None:
    sdk = SDKS[name]

    async def play() -> None:
        async with provider(sdk.dialect) as fake:
            fake.faults.arm(Fault(Place.PROVIDER_RESPONSE, Verb.LOSE, to="once@example.test"))
            fake.faults.arm(Fault(Place.PROVIDER_RESPONSE, Verb.LOSE, to="always@example.test", times=100))
            once, always = await send(name, fake, mail("once"), mail("always"), home=tmp_path)
            made = [mails_to(fake, to) for to in ("once", "always")]
            assert made == [len(attempts(fake, to)) for to in ("once", "always")]
            assert made == ([2, sdk.at_most] if sdk.resends else [1, 1])
            if sdk.lost is None:
                assert once["id"]
            else:
                assert once | sdk.lost == once
            assert always.get("error")

    asyncio.run(play())


@pytest.mark.parametrize("name", [name for name in ALL if SDKS[name].resends])
def test_what_an_sdk_tells_of_its_resends_is_noted(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with provider(SDKS[name].dialect) as fake:
            fake.faults.arm(Fault(Place.PROVIDER_RESPONSE, Verb.LOSE, to="ana@example.test"))
            await send(name, fake, mail("ana"), mail("ben"), home=tmp_path)
            first, second = attempts(fake, "ana")
            [other] = attempts(fake, "ben")
            if "call" in SDKS[name].tells:
                assert first.call == second.call != other.call
            else:
                assert (first.call, second.call) == (None, None)
            numbers = (first.resend, second.resend, other.resend)
            assert numbers == ((0, 1, 0) if "resend" in SDKS[name].tells else (None, None, None))

    asyncio.run(play())


@pytest.mark.parametrize("name", [*BY_DIALECT["ses"], *BY_DIALECT["cloudflare"]])
def test_a_mail_that_is_given_as_mime_is_read(name: str, tmp_path: Path) -> None:
    mime = "From: shop@example.test\nTo: ana@example.test\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n\nThanks\n"
    given: dict[str, Any] = {"mime": mime, "from": "shop@example.test"}
    if SDKS[name].dialect == "cloudflare":
        given["to"] = ["ana@example.test"]

    async def play() -> None:
        async with provider(SDKS[name].dialect) as fake:
            [told] = await send(name, fake, given, home=tmp_path)
            assert told["id"]
            sent = fake.ledger.deliveries[0].mail
            assert (sent.recipients, sent.subject, sent.text) == (("ana@example.test",), "Grüße", "Thanks")

    asyncio.run(play())


@pytest.mark.parametrize("name", BY_DIALECT["mailgun"])
def test_a_mail_with_a_file_is_read_from_a_form_in_parts(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with provider("mailgun") as fake:
            [told] = await send(name, fake, mail("ana", files=True), home=tmp_path)
            assert told["id"].startswith("<")
            sent = fake.ledger.deliveries[0].mail
            assert (sent.recipients, sent.subject, sent.text) == (("ana@example.test",), "Grüße", "Thanks")
            assert b"\xff\xfe\x00 " in sent.raw

    asyncio.run(play())


@pytest.mark.parametrize("name", [*BY_DIALECT["sendgrid"], *BY_DIALECT["mailgun"]])
def test_a_sandbox_send_is_not_delivered(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with provider(SDKS[name].dialect) as fake:
            [told] = await send(name, fake, mail("ana", sandbox=True), home=tmp_path)
            assert told["id"]
            [attempt] = attempts(fake, "ana")
            assert (attempt.dry_run, fake.ledger.commits) == (True, 0)

    asyncio.run(play())


@pytest.mark.parametrize("name", BY_DIALECT["postmark"])
def test_a_batch_comes_back_as_one_result_for_each_mail(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with provider("postmark") as fake:
            batch = [mail("ana"), {**mail(""), "to": ["nobody"]}, mail("ben")]
            [told] = await send(name, fake, {"batch": batch}, home=tmp_path)
            assert told["id"][1] == 300
            assert len(set(told["id"])) == 3
            assert [delivery.recipient for delivery in fake.ledger.deliveries] == [
                "ana@example.test",
                "ben@example.test",
            ]

    asyncio.run(play())


@pytest.mark.parametrize("name", BY_DIALECT["resend"])
def test_a_key_that_the_sdk_is_given_makes_its_callers_repeat_one_mail(name: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with provider("resend") as fake:
            fake.faults.arm(Fault(Place.PROVIDER_RESPONSE, Verb.LOSE))
            first, again = await send(name, fake, mail("ana", key="k1"), mail("ana", key="k1"), home=tmp_path)
            assert first.get("error")
            assert again["id"]
            assert fake.ledger.commits == 1

    asyncio.run(play())
