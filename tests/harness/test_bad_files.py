"""Files with mistakes: one line that names the file, the place and the remedy, and status 2 before anything starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SENDTWICE = [sys.executable, "-m", "sendtwice.harness.cli"]

TARGET = """
[target]
name = "x"
[target.api]
url = "http://127.0.0.1:{port}"
[target.api.request]
path = "/send"
key = "body:/ref"
body = { to = "{to}", title = "{subject}", text = "{text}" }
[target.api.answer]
id = "/data/id"
[target.start]
command = ["touch", "started"]
env = { PORT = "{port}" }
ready = "/up"
[target.provider]
dialect = "generic"
"""

SCENARIO = """
id: my.one
title: A thing
role: api
why: because
steps:
- send:
    as: first
    at:
      provider.request: hold
- send:
    as: second
    like: first
    wait: none
- until:
    answered: second
    or_after: grace
- release: first
- finish: second
expect:
  deliveries:
    first: 1
"""

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def refused(folder: Path, *arguments: str) -> str:
    """The one line that was said; nothing was started, and the status is 2."""
    env = {name: value for name, value in os.environ.items() if name != "SENDTWICE_UNSET"}
    done = subprocess.run(
        [*SENDTWICE, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert "internal error" not in lines[0], lines[0]
    assert (done.returncode, done.stdout) == (2, ""), lines[0]
    assert not (folder / "started").exists()
    return lines[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[target]", "[targte]", "targte: unknown key; did you mean 'target'?"),
        ("url =", "ulr =", "target.api.ulr: unknown key; did you mean 'url'?"),
        ("path =", "paht =", "target.api.request.paht: unknown key; did you mean 'path'?"),
        ("key =", "kye =", "target.api.request.kye: unknown key; did you mean 'key'?"),
        ("command =", "comand =", "target.start.comand: unknown key; did you mean 'command'?"),
        ("dialect =", "dialekt =", "target.provider.dialekt: unknown key; did you mean 'dialect'?"),
        ('"/up"', "3", "target.start.ready: "),
        ('["touch", "started"]', '"touch started"', "target.start.command: "),
        ("{subject}", "{subjekt}", "target.api.request.body: unknown placeholder {subjekt}; did you mean {subject}?"),
        ('PORT = "{port}"', 'PORT = "{prot}"', "target.start.env: unknown placeholder {prot}; did you mean {port}?"),
        ('"generic"', '"generic"\ndialect = "resend"', "is not valid TOML"),
        ("[target.provider]", "[target.provider", "is not valid TOML"),
        ("body:/ref", "Idempotency-Key", "target.api.request.key: 'Idempotency-Key' is no place for a key"),
        ("body:/ref", "body:ref", "target.api.request.key: "),
        ("body:/ref", "header:A B", "target.api.request.key: "),
        ('"/data/id"', '"data.id"', "target.api.answer.id: "),
        ("http://", "ftp://", "target.api.url: "),
        ("127.0.0.1:{port}", "127.0.0.1:99999", "target.api.url: "),
        ("127.0.0.1:{port}", "203.0.113.9", "--allow-remote"),
        ('"/send"', '"/s\\r\\nX: y"', "target.api.request.path: "),
        ("{to}", "someone@example.test", "{to}"),
        ('PORT = "{port}"', 'PORT = "{env:SENDTWICE_UNSET}"', "SENDTWICE_UNSET"),
        ('PORT = "{port}"', '"A=B" = "c"', "target.start.env"),
        ('"touch"', '"tou\\u0000ch"', "target.start.command"),
        ('"generic"', '"genric"', "target.provider.dialect: 'genric' is not a dialect; did you mean 'generic'?"),
        ('name = "x"', 'name = "x"\ncontract = "raskte"', "target.contract: 'raskte' is not a shipped contract"),
        ('"generic"', '"generic"\n[target.timing]\nretries_for = inf', "target.timing.retries_for: "),
        ('"generic"', '"generic"\n[target.api.senders.other-tenant]', "target.api.senders.other-tenant: "),
        ('"generic"', '"generic"\n[target.api.senders.other-mailbox]', "target.api.senders.other-mailbox: "),
        ('title = "{subject}", text = "{text}"', 'title = "x"', "target.api.request.body: {subject} is missing"),
        ('ready = "/up"', "timeout = nan", "target.start.timeout: "),
        ("http://127.0.0.1:{port}", "127.0.0.1:3000", "target.api.url: '127.0.0.1:3000' is no http address"),
        ('"generic"', '"no.yaml"', "target.provider.dialect: 'no.yaml' does not exist"),
        ('name = "x"', 'name = "x"\ncontract = "no.yaml"', "target.contract: 'no.yaml' does not exist"),
    ],
)
def test_a_mistake_in_a_target_file_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TARGET
    (tmp_path / "sendtwice.toml").write_text(TARGET.replace(old, new, 1))
    line = refused(tmp_path, "check")
    assert line.startswith("sendtwice: sendtwice.toml: ")
    assert said in line


@pytest.mark.parametrize(
    ("scenario", "rule", "said"),
    [("send.brust", "at-most-once", "send.burst"), ("send.burst", "at-most-onec", "at-most-once")],
)
def test_a_known_deviation_of_nothing_is_named(tmp_path: Path, scenario: str, rule: str, said: str) -> None:
    known = f'[[known]]\nscenario = "{scenario}"\nrule = "{rule}"\nreason = "r"\n'
    (tmp_path / "sendtwice.toml").write_text(TARGET + known)
    assert said in refused(tmp_path, "check")


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"# nothing\n", b"\xff\xfe", b'[target]\nname = "a\0b"\n'),
        b"x = " + b"[" * 5000,  # found to be wrong on 2026-11-29 (RecursionError)
    ],
)
def test_what_is_no_target_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    assert refused(tmp_path, "check", "x.toml").startswith("sendtwice: x.toml: ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title:", "titel:", "s.yaml:3: titel: unknown key; did you mean 'title'?"),
        ("- send:", "- sned:", "s.yaml:7: steps.0: is no step"),
        ("like: first", "like: frist", "s.yaml:13: steps.1.send.like: 'frist' is no attempt of an earlier step"),
        ("release: first", "release: frist", "s.yaml:18: steps.3.release: 'frist' is no label of an earlier step"),
        ("finish: second", "finish: secnd", "'secnd' is no attempt of an earlier step"),
        ("    first: 1", "    frist: 1", "expect.deliveries: 'frist' is no operation of this scenario"),
        ("    first: 1", "    ? {a: b}\n    : 1", "is no operation of this scenario"),
        ("hold", "hlod", "hlod"),
        ("provider.request", "provider.requets", "not 'provider.requets'"),
        ("title: A thing", "title: A\ntitle: B", "'title' is given twice; keep one"),
        ("id: my.one", "id: ../../x", "id: "),
        ("role: api", "role: consumer", "is for role consumer and the target has role api"),
        ("as: second\n    like: first\n    wait: none", "as: first\n- send:\n    as: second", "'first'"),
        ("    first: 1", "    first: -1", "expect.deliveries.first: "),
        ("hold", "{answer: 99}", "answer"),
        ("or_after: grace", "or_after: -1", "or_after"),
        ("or_after: grace", "or_after: .inf", "until.or_after: input should be 'grace', or a finite number, not inf"),
    ],
)
def test_a_mistake_in_a_scenario_file_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in SCENARIO
    (tmp_path / "sendtwice.toml").write_text(TARGET)
    (tmp_path / "s.yaml").write_text(SCENARIO.replace(old, new, 1))
    line = refused(tmp_path, "replay", "s.yaml", "sendtwice.toml")
    assert line.startswith("sendtwice: s.yaml")
    assert said in line


@pytest.mark.parametrize(
    "content",
    [
        *("", "hello", "- a", "a: [b", "a:\n\tb: 1", "a: !foo b", "a: !!python/name:os.system b", "a\0b: c", "a: *b"),
        *(BOMB, "&a [*a]", "a: " + "[" * 3000),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_no_scenario_file_is_refused_at_once(tmp_path: Path, content: str) -> None:
    (tmp_path / "sendtwice.toml").write_text(TARGET)
    (tmp_path / "s.yaml").write_text(content)
    assert refused(tmp_path, "replay", "s.yaml", "sendtwice.toml").startswith("sendtwice: s.yaml")


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("kye: {at: 'header:K'}", "kye: unknown key; did you mean 'key'?"),
        ("key: {at: 'cookie:x'}", "key.at: 'cookie:x' is no place for a key"),
        ("duplicates: reply", "duplicates"),
        ("levels: {conflict: shud}", "levels.conflict"),
        ("levels: {conflcit: should}", "conflict"),
        ("retention: {at_least: -1}", "retention.at_least: "),
        ("lease: .inf", "lease: "),
        ("answers: {accepted: {status: 999}}", "answers.accepted"),
    ],
)
def test_a_mistake_in_a_contract_file_is_named(tmp_path: Path, added: str, said: str) -> None:
    (tmp_path / "sendtwice.toml").write_text(TARGET)
    (tmp_path / "c.yaml").write_text(f"extends: universal\nname: mine\ntitle: Mine\nsource: here\n{added}\n")
    line = refused(tmp_path, "check", "--contract", "c.yaml")
    assert line.startswith("sendtwice: c.yaml:")
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--foo"], "No such option '--foo'"),
        (["run", "--scenario", "nosuch"], "--scenario 'nosuch' fits no scenario"),
        (["run", "--tag", "nosuch"], "--tag 'nosuch' fits no scenario"),
        (["run", "--time-limit", "0"], "--time-limit"),
        (["run", "--contract", "nosuch"], "'nosuch' is not a shipped contract"),
        (["run", "--url", "ftp://x"], "--url: 'ftp://x' is no http address"),
        (["run", "--url", "http://127.0.0.1:1", "sendtwice.toml"], "not both"),
        (["run", "--report", "sendtwice.toml"], "--report: sendtwice.toml cannot be written to"),
        (["check", "nosuch.toml"], "nosuch.toml: cannot be read (no such file or directory); check the path"),
        (["check", "."], "sendtwice.toml: "),
        (["replay", "."], ".: cannot be read (is a directory)"),
        (["explain", "send.brust"], "did you mean send.burst"),
        (["serve", "--contract", "nosuch"], "'nosuch' is not a shipped contract"),
        (["run", "--time-limit", "nan"], "--time-limit"),
        (["run", "--json", "."], "--json"),
        (["run", "--write-known", "."], "--write-known"),
        (["run", "--url", "http://203.0.113.1"], "--allow-remote"),
        (["run", "--json", "no/x.json"], "--json: no does not exist as a folder"),
        (["run", "--junit", "no/x.xml"], "--junit: no does not exist as a folder"),
        (["run", "--url", "http://127.0.0.1:1", "--key", "X-Key"], "--key: 'X-Key' is no place for a key"),
        (["run", "--key", "header:X-Key"], "give --url too"),
        (["check", "/dev/zero"], "/dev/zero: is larger than 1 MiB"),
        (["serve", "--contract", "rasket", "--upstream", "ftp://x"], "--upstream: 'ftp://x' is no http address"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_argument_is_refused_before_anything_starts(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "sendtwice.toml").write_text("" if arguments == ["check", "."] else TARGET)
    assert said in refused(tmp_path, *arguments)


def call(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*SENDTWICE, *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=False)


def test_a_deviation_of_ones_own_scenario_may_be_known(tmp_path: Path) -> None:
    known = '[[known]]\nscenario = "my.one"\nrule = "at-most-once"\nreason = "r"\n'
    (tmp_path / "sendtwice.toml").write_text(TARGET + known)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    assert call(tmp_path, "run", "--scenario", "s.yaml", "--dry-run").returncode == 0
    assert "my.one" in refused(tmp_path, "run", "--scenario", "send.burst", "--dry-run")


def test_a_mail_may_go_into_the_query(tmp_path: Path) -> None:
    target = TARGET.replace('"/send"', '"/send?to={to}&s={subject}"')
    body = 'body = { to = "{to}", title = "{subject}", text = "{text}" }'
    (tmp_path / "sendtwice.toml").write_text(target.replace(body, "body = {}"))
    assert call(tmp_path, "run", "--dry-run").returncode == 0


def test_a_place_of_the_key_that_nobody_said_is_told(tmp_path: Path) -> None:
    assumed = "key in header:Idempotency-Key (assumed"
    assert assumed in call(tmp_path, "run", "--url", "http://127.0.0.1:1", "--dry-run").stdout
    for more in (("--key", "body:/ref"), ("--contract", "rasket")):
        assert assumed not in call(tmp_path, "run", "--url", "http://127.0.0.1:1", "--dry-run", *more).stdout


@pytest.mark.parametrize("arguments", [("scenarios",), ("run", "--dry-run"), ("schema", "target")])
def test_a_full_disk_is_told(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "sendtwice.toml").write_text(TARGET)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SENDTWICE, *arguments],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=20,
            check=False,
        )
    assert done.returncode == 4
    assert done.stderr == "sendtwice: standard output cannot be written (no space left on device); make room\n"


def test_help_has_a_short_name_everywhere(tmp_path: Path) -> None:
    for command in ("run", "check", "scenarios", "explain", "serve", "demo", "replay", "schema"):
        assert call(tmp_path, command, "-h").stdout.startswith("Usage: ")


def test_a_scenario_in_a_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    assert "play it: sendtwice run TARGET.toml --scenario s.yaml" in call(tmp_path, "explain", "s.yaml").stdout
