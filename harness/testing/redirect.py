"""Points the known SDKs at a fake API for as long as a test has one, and puts everything back.

What is changed is data: the variables that a contract names (``variables:``), and the tables below. A client that an
application made before the test has its address already; the guard says so when it is used.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attribute:
    """A module's attribute that holds the address of the API of a contract's vendor."""

    contract: str
    module: str
    name: str


#: SDKs that read their address from a module.
ATTRIBUTES = (
    Attribute("resend", "resend", "api_url"),
    Attribute("stripe-v1", "stripe", "api_base"),
    Attribute("stripe-v1", "stripe._stripe_client", "DEFAULT_API_BASE"),
)
#: The variable that holds the address of a send API or a mail provider, for code of one's own in any language.
OWN = {"client": "SENDTWICE_API_URL", "provider": "SENDTWICE_PROVIDER_URL"}
#: What an SDK needs besides its address, where the environment has nothing of its own.
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "ses": {
        "AWS_ACCESS_KEY_ID": "sendtwice",
        "AWS_SECRET_ACCESS_KEY": "sendtwice",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    },
}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_HERE = "127.0.0.1,localhost"


@contextlib.contextmanager
def redirected(
    url: str, environment: Mapping[str, str], names: Sequence[str], *, more: Sequence[str] = ()
) -> Iterator[None]:
    """Point the SDKs of the contracts called ``names``, and the variables ``more``, at ``url``."""
    variables = dict(environment) | dict.fromkeys(more, url)
    for name in names:
        variables |= {key: value for key, value in DEFAULTS.get(name, {}).items() if key not in os.environ}
    if any(name in os.environ for name in _PROXIES):  # a proxy cannot reach what is only on this machine
        for name in ("NO_PROXY", "no_proxy"):
            kept = os.environ.get(name)
            variables[name] = f"{_HERE},{kept}" if kept else _HERE
    with contextlib.ExitStack() as stack:
        # The modules come first: one that is imported by this reads its variables while they are still its own.
        for attribute in ATTRIBUTES:
            if attribute.contract in names:
                stack.enter_context(_attribute(attribute, url))
        stack.enter_context(_variables(variables))
        yield


@contextlib.contextmanager
def _variables(given: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _attribute(attribute: Attribute, url: str) -> Iterator[None]:
    """Set a module's attribute; a module that is not there is left alone, one that is not yet imported is."""
    top = attribute.module.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        yield
        return
    try:
        module = importlib.import_module(attribute.module)
    except ImportError:  # another version of the SDK, arranged in another way
        yield
        return
    before = getattr(module, attribute.name, None)
    if before is None:
        yield
        return
    setattr(module, attribute.name, url)
    try:
        yield
    finally:
        setattr(module, attribute.name, before)
