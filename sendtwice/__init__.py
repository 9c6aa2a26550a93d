"""sendtwice tries to make a system send the same mail twice, and says which promise was broken.

What a test uses is here, and loaded when it is first asked for; the pytest plugin is built on the same:

==================  ================================================================================
``SendApi``         a send API for one test: the emulator of a contract on a free port, with faults
``Operation``       what a callable registered with ``@sendtwice.operate`` is asked to do
``mails``           mails to send: ``@pytest.mark.parametrize("mail", sendtwice.mails(seed=1))``
``SendtwiceError``  something cannot be done, or must not happen; one line, with the remedy
==================  ================================================================================
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sendtwice.harness.mails import mails as mails
    from sendtwice.harness.operations import Operation as Operation
    from sendtwice.harness.testing.errors import SendtwiceError as SendtwiceError
    from sendtwice.harness.testing.send_api import SendApi as SendApi

__version__ = "0.1.0"

__all__ = ["Operation", "SendApi", "SendtwiceError", "__version__", "mails"]

_PLACES = {
    "Operation": "sendtwice.harness.operations",
    "SendApi": "sendtwice.harness.testing.send_api",
    "SendtwiceError": "sendtwice.harness.testing.errors",
    "mails": "sendtwice.harness.mails",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'sendtwice' has no attribute {name!r}")
    import importlib  # noqa: PLC0415  # most who import this ask for nothing

    return getattr(importlib.import_module(place), name)


def __dir__() -> list[str]:
    return sorted(__all__)
