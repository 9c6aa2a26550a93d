"""Varied mails: each odd in its way, each the same for a seed, and all of them found again by their tokens."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import unicodedata
from email.headerregistry import Address
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import sendtwice
from sendtwice.fake_provider.messages import Request
from sendtwice.harness import session
from sendtwice.harness.attribution import Attribution, Content, Identity
from sendtwice.harness.errors import HarnessError
from sendtwice.harness.history import Kind
from sendtwice.harness.launch.asgi import AsgiLauncher, Message
from sendtwice.harness.mails import EMPTY, KINDS, Draw, Mail, Mails, draw
from sendtwice.harness.result import RunResult, Verdict
from sendtwice.harness.scenario import Scenario, catalogue, parse
from sendtwice.harness.settings import RunSettings
from sendtwice.harness.target import Target, load
from tests.fake_provider.kit import call, provider, run
from tests.support import ROOT

R, S, T = "rabcdefghjkm", "sabcdefghjkm", "tabcdefghjkm"


def made(kind: str, seed: int = 1) -> Mail:
    return Mails(seed).mail(kind, R, S, T)


# --- What each kind is like -----------------------------------------------------------------------------


def local_part(mail: Mail) -> str:
    return mail.to.rpartition("@")[0]


@pytest.mark.parametrize("seed", range(1, 6))
def test_each_kind_is_odd_in_its_own_way(seed: int) -> None:
    mails = {kind: made(kind, seed) for kind in KINDS}
    assert 78 < len(mails["long-subject"].subject) <= 998
    assert len(mails["longest-subject"].subject) > 998
    assert mails["empty-subject"].subject == ""
    assert "AL" in {unicodedata.bidirectional(c) for c in mails["right-to-left"].subject}
    assert any(ord(c) > 0xFFFF for c in mails["emoji"].subject)
    assert any(unicodedata.combining(c) for c in mails["combining-characters"].subject)
    assert local_part(mails["quoted-local-part"]).startswith('"')
    assert local_part(mails["plus-tag"]).startswith(f"{R}+")
    assert mails["punycode-domain"].to == f"{R}@xn--bcher-kva.sendtwice.test"
    assert mails["unicode-domain"].to == f"{R}@b\u00fccher.sendtwice.test"
    assert local_part(mails["upper-case-local-part"]) == R.upper()
    assert len(local_part(mails["long-local-part"])) == 64
    assert {"\r", "\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c"} <= set(mails["line-separators"].text)
    assert "<b>" in mails["like-html"].text
    assert len({mail.subject for mail in mails.values()}) == len(KINDS)


@pytest.mark.parametrize("mail", sendtwice.mails(seed=7))
def test_an_address_is_one_by_the_standards(mail: Mail) -> None:
    ascii_only = mail.to.replace("b\u00fccher", "xn--bcher-kva")
    address = Address(addr_spec=ascii_only)
    assert address.addr_spec == ascii_only
    assert len(local_part(mail)) <= 64


@pytest.mark.parametrize("mail", sendtwice.mails(seed=7))
def test_a_mail_can_be_written_in_every_form(mail: Mail) -> None:
    """Its first character may be written as an escape of four digits, and its lines are no header's."""
    for said in (mail.subject, mail.text):
        assert said == "" or (said[0].isprintable() and ord(said[0]) < 0xD800 and said[0] not in '"\\')
    assert not set(mail.subject + mail.to) & set("\r\n")
    assert "{" not in mail.subject + mail.text


def test_pytest_shows_the_kinds_as_ids(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, sendtwice

        @pytest.mark.parametrize("mail", sendtwice.mails(seed=1))
        def test_it(mail):
            assert "@" in mail.to
        """
    )
    found = pytester.runpytest("--collect-only", "-q", "-p", "no:randomly", "-p", "no:asyncio")
    shown = [line.partition("[")[2].rstrip("]") for line in found.outlines if "::test_it" in line]
    assert shown == list(Mails(1).kinds())


# --- Seeds ----------------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_mails_in_any_process() -> None:
    code = "import sendtwice; print([repr(mail) for mail in sendtwice.mails(seed=5)])"
    shown = [subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)]
    assert shown[0] == shown[1] == f"{[repr(mail) for mail in Mails(5)]}\n"


def test_another_seed_draws_other_mails_in_another_order() -> None:
    one, other = Mails(1), Mails(2)
    assert one.kinds() != other.kinds()
    assert set(one.kinds()) == set(other.kinds()) == set(KINDS)
    assert not {mail.text for mail in one} & {mail.text for mail in other}
    assert made("plain", 1).text != made("plain", 2).text


def test_a_mail_is_the_same_whatever_was_drawn_before() -> None:
    mails = Mails(3)
    before = mails.mail("emoji", R, S, T)
    list(mails)
    assert mails.mail("emoji", R, S, T) == before == made("emoji", 3)


def test_an_unknown_kind_is_one_clear_error() -> None:
    with pytest.raises(ValueError, match="'odd' is no kind of mail; there are plain, long-subject"):
        Mails().mail("odd")


def test_without_faker_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HarnessError, match=r"^faker is missing, .*; pip install 'sendtwice\[mails\]'$"):
        sendtwice.mails()
    target = Target.model_validate({"target": {"mails": "varied", "api": {"url": "http://127.0.0.1:{port}"}}})
    with pytest.raises(Exception, match=r"faker is missing"):
        asyncio.run(session.run(target, tmp_path / "target.toml", [], RunSettings(reports=tmp_path)))


def test_faker_is_loaded_only_when_mails_are_made() -> None:
    code = "import sys, sendtwice.harness.session as s; print('faker' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


# --- Attribution ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "form"])
@pytest.mark.parametrize("contract", ["resend", "rasket"])
def test_every_kind_is_found_again_through_the_emulators(contract: str, form: str) -> None:
    """Beside it are an operation for the same recipient, and one of the same content."""

    async def play() -> None:
        attribution = Attribution()
        identities = {}
        for kind in KINDS:
            mail = Mails(4).mail(kind)
            recipient, content = tokens(kind)
            identities[kind] = attribution.add(Identity("one", kind, recipient, content))
            attribution.add(
                Identity("one", f"{kind} other content", recipient, Content("s" * 12, f"t{kind:x>11}"[:12]))
            )
            attribution.add(Identity("one", f"{kind} other recipient", f"r{kind:x>11}"[:12], content))
        async with provider(contract, identify=attribution.uid) as fake:
            for kind in KINDS:
                mail = Mails(4).mail(kind)
                body = {"from": "shop@example.test", "to": mail.to, "subject": mail.subject, "text": mail.text}
                answer = await fake.emulator.begin(asked(contract, form, body, kind)).perform()
                if kind == EMPTY and answer.status in (400, 422):
                    continue  # a contract that requires a subject
                assert answer.status in (200, 201, 202), (kind, answer.body)
                delivery = fake.ledger.deliveries[-1]
                assert delivery.operation == identities[kind].uid, kind
                match = attribution.identify(delivery.mail, (delivery.recipient,))
                assert match is not None
                assert (match.identity, match.swallowed, match.ambiguous) == (identities[kind], False, False)

    run(play())


def tokens(kind: str) -> tuple[str, Content]:
    """The tokens that the seed has drawn for a kind."""
    plain = Mails(4).mail(kind)
    found = [
        word.strip(".,:<>/&b") for word in f"{plain.subject} {plain.text}".replace("<", " ").replace(">", " ").split()
    ]
    subject = next((w for w in found if len(w) == 12 and w[0] == "s"), "s" + "q" * 11)
    text = next(w for w in found if len(w) == 12 and w[0] == "t")
    return plain.to.lower().strip('"')[:12], Content(subject, text)


def asked(contract: str, form: str, body: dict[str, Any], key: str) -> Request:
    if form == "json":
        return call(body=body, key=key, headers={"User-Agent": "tests"})
    headers = {"User-Agent": "tests", "Content-Type": "application/x-www-form-urlencoded"}
    return call(raw=urlencode(body).encode(), key=key, headers=headers)


# --- In a run -------------------------------------------------------------------------------------------


def test_a_scenarios_mails_are_one_for_each_recipient_and_content() -> None:
    drawn = Draw(Mails(1), "send.repeat")
    content = Content(S, T)
    first = (drawn.address(R, R, "{token}@a.test"), drawn.words("first", content))
    drawn.address("other", "other", "{token}@a.test")
    assert (drawn.address(R, R, "{token}@a.test"), drawn.words("first", content)) == first
    assert drawn.words("first", Content("other", T)).subject == first[1].subject.replace(S, "other")
    again = Draw(Mails(1), "send.repeat")
    assert (again.address(R, R, "{token}@a.test"), again.words("first", content)) == first
    kinds = {Draw(Mails(seed), "send.repeat").address(R, R, "{token}@a.test") for seed in range(30)}
    assert len(kinds) > 5


def test_two_mails_that_differ_in_their_subjects_have_some() -> None:
    steps = "[{send: {as: a}}, {send: {as: b, like: a, change: {subject: other}}}]"
    scenario = parse(f"{{id: mine, title: Mine, role: api, steps: {steps}}}")
    for seed in range(20):
        drawn = draw(Mails(seed), scenario)
        assert drawn is not None
        for number in range(len(KINDS)):
            assert drawn.words(f"c{number}", Content(S, T)).subject


@cache
def scenarios_of_all() -> list[Scenario]:
    return catalogue()


def played(target: Target, path: Path, *scenarios: str, reports: Path, seed: int = 1, **given: Any) -> RunResult:
    chosen = [s for s in scenarios_of_all() if s.id in scenarios or (not scenarios and "smoke" in s.tags)]
    varied = target.model_copy(update={"target": target.target.model_copy(update={"mails": "varied"})})
    settings = RunSettings(reports=reports, watch=0.05, seed=seed)
    return asyncio.run(session.run(varied, path, chosen, settings, **given))


def addressed(result: RunResult) -> set[str]:
    """Every recipient of the run, less its token."""
    operations = [e for s in result.scenarios for e in s.history if e.kind is Kind.OPERATION]
    return {str(address)[12:] for event in operations for address in event.data["recipients"]}


@pytest.mark.slow
@pytest.mark.parametrize("file", ["tests/emulated/rasket.toml", "tests/sound/replays-written-anew/target.toml"])
def test_sound_targets_pass_with_varied_mails(file: str, tmp_path: Path) -> None:
    target, path = load(str(ROOT / file))
    result = played(target, path, reports=tmp_path)
    assert result.error is None
    failed = {s.id: s.reason for s in result.scenarios if s.verdict not in (Verdict.PASSED, Verdict.SKIPPED)}
    assert failed == {}
    assert len(addressed(result)) > 1
    assert result.observed.get("mails", "empty-subject").endswith("empty-subject")


class Picky:
    """A send API that takes one recipient in ASCII, and wants a subject."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, tuple[bytes, int, bytes]] = {}
        self.asked: list[str] = []
        self.lock = asyncio.Lock()

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        mail = json.loads(body)
        key = dict(scope["headers"]).get(b"idempotency-key", b"").decode()
        async with self.lock:
            if key not in self.answers:
                self.answers[key] = (body, *await self.perform(mail))
            first, status, answer = self.answers[key]
            if first != body:
                status, answer = 422, b"{}"
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    async def perform(self, mail: dict[str, Any]) -> tuple[int, bytes]:
        import httpx  # noqa: PLC0415  # this target's own

        to = mail["to"] if isinstance(mail["to"], str) else mail["to"][0]
        if not to.isascii() or not mail["subject"] or '"' in to:
            return 422, b"{}"
        self.asked.append(to)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            await client.post(f"{self.url}/emails", json=mail)
        return 200, json.dumps({"id": str(len(self.asked))}).encode()


def test_what_a_target_refuses_is_not_asked_of_it(tmp_path: Path) -> None:
    data = {"name": "picky", "api": {"url": "http://127.0.0.1:{port}"}}
    target = Target.model_validate({"target": data})
    scenarios = ("send.repeat", "send.other-subject", "send.other-recipient", "send.same-content-two-keys")
    result = played(
        target,
        tmp_path / "target.toml",
        *scenarios,
        reports=tmp_path,
        launcher=lambda values: AsgiLauncher(Picky(values["provider_url"])),
    )
    assert result.error is None
    assert {s.id: s.verdict for s in result.scenarios} == dict.fromkeys(scenarios, Verdict.PASSED)
    assert result.observed["mails"] == (
        "left out, for the target does not take them: empty-subject, quoted-local-part, unicode-domain"
    )


def test_the_seed_of_a_run_draws_its_mails(tmp_path: Path) -> None:
    def play(seed: int) -> set[str]:
        target = Target.model_validate({"target": {"api": {"url": "http://127.0.0.1:{port}"}}})
        made = played(
            target,
            tmp_path / "target.toml",
            *("send.repeat", "send.same-content-two-keys", "send.other-recipient", "send.reordered-fields"),
            reports=tmp_path,
            seed=seed,
            launcher=lambda values: AsgiLauncher(Picky(values["provider_url"])),
        )
        assert made.error is None
        return addressed(made)

    assert play(1) == play(1) != play(2)
