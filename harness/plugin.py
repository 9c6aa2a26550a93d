"""The pytest plugin: fixtures ``send_api``, ``fake_provider`` and ``sendtwice``, and the marker ``sendtwice``.

It is loaded in every run of pytest beside which sendtwice is installed, so it loads nothing until a test asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sendtwice.harness.testing.playing import Sendtwice
    from sendtwice.harness.testing.send_api import Edge, SendApi
    from sendtwice.harness.testing.settings import Choice

_PASSED = pytest.StashKey[bool]()
_MARKER = (
    "sendtwice(contract=..., scenarios='client.*', told={Error: 'unknown'}, ...): the contract of the send API that a "
    "test uses, and with the fixture sendtwice the scenarios that it is played with, one test for each"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Name what can be set in a project's pytest settings."""
    parser.addini("sendtwice_contract", "the send API's contract: a shipped one, or a file")
    parser.addini("sendtwice_dialect", "how mail is handed over to the fixture fake_provider")
    parser.addini("sendtwice_allow", "hosts that may be connected to while a test has a send API", "args", [])
    parser.addini("sendtwice_env", "environment variables that get the send API's address", "args", [])


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each scenario."""
    if "sendtwice" not in metafunc.fixturenames:
        return
    from sendtwice.harness.testing import scenarios, settings  # noqa: PLC0415  # what is not used costs nothing
    from sendtwice.harness.testing.errors import SendtwiceError  # noqa: PLC0415

    definition = metafunc.definition
    try:
        found = scenarios.parts(settings.choice(definition), definition.path.parent)
    except SendtwiceError as error:
        # Raised here it would come out of every other plugin's wrapper; as a parameter it is one line of one test.
        metafunc.parametrize("sendtwice", [pytest.param(error, id="error")], indirect=True)
        return
    metafunc.parametrize(
        "sendtwice",
        [
            pytest.param(part, id=str(part), marks=[pytest.mark.skip(reason=part.lacks)] if part.lacks else [])
            for part in found
        ],
        indirect=True,
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a test that names scenarios and does not take them: it would play none, and pass."""
    for marker in item.own_markers:  # a module's may be meant for other tests of it
        if (
            marker.name == "sendtwice"
            and "scenarios" in marker.kwargs
            and "sendtwice" not in getattr(item, "fixturenames", ())
        ):
            pytest.fail(
                f"{item.name} names scenarios and does not play them; give it the argument sendtwice", pytrace=False
            )


@pytest.fixture
def send_api(request: pytest.FixtureRequest) -> Iterator[SendApi]:
    """A send API that keeps a contract, on a port of its own, with faults; the known SDKs are pointed at it."""
    if "sendtwice" in request.fixturenames:
        yield request.getfixturevalue("sendtwice").api
        return
    choice = _choice(request)
    with _in_one_line():
        contract = choice.needed_contract()
    yield from _api(request, choice, contract, "client")


@pytest.fixture
def fake_provider(request: pytest.FixtureRequest) -> Iterator[SendApi]:
    """The mail provider behind an application, as the dialect of the marker or the settings; the same handle."""
    choice = _choice(request)
    yield from _api(request, choice, choice.dialect, "provider")


@pytest.fixture
def sendtwice(request: pytest.FixtureRequest) -> Iterator[Sendtwice]:
    """One scenario: what is registered with ``@sendtwice.operate`` is asked to send, and judged."""
    from sendtwice.harness.testing.playing import Sendtwice  # noqa: PLC0415

    part = getattr(request, "param", None)
    if part is None:
        pytest.fail("the fixture sendtwice is an argument of a test, not of a unittest.TestCase", pytrace=False)
    with _in_one_line():
        if isinstance(part, Exception):
            raise part
        played = Sendtwice(_choice(request), part, request.path.parent)
    try:
        with _in_one_line():
            played.start()
        yield played
    finally:
        played.stop()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Play the scenario after a test's own function: inside its loop, where it has one."""
    played = getattr(item, "funcargs", {}).get("sendtwice")
    if played is None or not isinstance(item, pytest.Function):
        return (yield)
    function = item.obj
    item.obj = played.around(function, color=item.config.get_terminal_writer().hasmarkup)
    try:
        return (yield)
    finally:
        item.obj = function


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Remember whether a test has passed: what its fixtures find at the end is news only then."""
    if call.when == "call":
        item.stash[_PASSED] = call.excinfo is None
    return (yield)


def _choice(request: pytest.FixtureRequest) -> Choice:
    from sendtwice.harness.testing.settings import choice  # noqa: PLC0415

    with _in_one_line():
        return choice(request.node)


@contextlib.contextmanager
def _in_one_line() -> Iterator[None]:
    """Fail a test with the one line of an error of ours, and nothing of what led to it."""
    from sendtwice.harness.testing.errors import SendtwiceError  # noqa: PLC0415

    try:
        yield
    except SendtwiceError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _api(request: pytest.FixtureRequest, choice: Choice, contract: str, edge: Edge) -> Iterator[SendApi]:
    from sendtwice.harness.testing.send_api import SendApi  # noqa: PLC0415

    with _in_one_line():
        variables = choice.env if edge == "client" else ()
        api = SendApi(contract, edge=edge, allow=choice.allow, variables=variables).start()
    try:
        yield api
    finally:
        with _in_one_line():
            api.stop(check=request.node.stash.get(_PASSED, False))
