"""A scenario's fault in words: what it does, to which message, as whoever reads the scenario sees it. Pure.

For the role client the target calls, and the API that answers is ours; else a caller of ours asks the target.
"""

from __future__ import annotations

from typing import Any

from sendtwice.fake_provider.faults import Place, Verb
from sendtwice.harness.fault_specs import STORE, FaultSpec

#: The message of each crossing.
MESSAGE = {
    Place.CLIENT_REQUEST: "the caller's request",
    Place.CLIENT_RESPONSE: "the answer to the caller",
    Place.PROVIDER_REQUEST: "the mail on its way to the provider",
    Place.PROVIDER_RESPONSE: "the provider's answer",
    Place.WEBHOOK_REQUEST: "the provider's event",
    Place.WEBHOOK_RESPONSE: "the target's ack",
    Place.STORE_REQUEST: "the target's message to its store",
    Place.STORE_RESPONSE: "the store's answer",
}
#: The same for the role client.
_OF_CLIENT = {Place.CLIENT_REQUEST: "the target's request", Place.CLIENT_RESPONSE: "the API's answer"}

#: Nothing is met as often as this: it stands for "as long as the fault lies".
_ALWAYS = 1000

_LOST_AT = {
    None: "while the provider's answer is held",
    "before-answer": "while the provider's answer is held",
    "first-byte": "at the first byte of the answer",
    "in-body": "in the middle of the answer",
}
#: Where an answer breaks off.
BREAKS_OFF = {
    "first-byte": "after its first byte",
    "in-body": "in the middle of its body",
    "in-chunks": "in its chunks, before the last",
}
#: What is in a whole answer that is none.
GARBLED = {
    "html": "a page of HTML",
    "empty": "an empty body",
    "half": "half of its JSON",
    "gzip": "half of its gzip",
}


def fault_in_words(spec: FaultSpec, *, role: str = "api") -> str:
    """Return one fault as a sentence's end."""
    text = _text(spec, role)
    extra = [f"of {spec.of}"] if spec.of else []
    extra += [f"at its {spec.stage} stage"] if spec.stage and spec.crossing not in STORE else []
    extra += [f"number {spec.nth}"] if spec.nth > 1 else []
    often = "every time" if spec.times >= _ALWAYS else f"{spec.times} times"
    extra += [often + (f" until {spec.label!r} is released" if spec.label else "")] if spec.times > 1 else []
    return f"{text} ({', '.join(extra)})" if extra else text


def _text(spec: FaultSpec, role: str) -> str:
    what, argument = _message(spec, role), spec.argument
    match spec.verb:
        case Verb.LOSE if spec.crossing is Place.CLIENT_RESPONSE and role == "client":
            where = BREAKS_OFF.get(str(argument))
            return f"{what} breaks off {where}" if where else f"{what} is lost"
        case Verb.LOSE if spec.crossing is Place.CLIENT_RESPONSE:
            where = _LOST_AT.get(str(argument) if argument is not None else None, "before the answer comes")
            return f"the caller is gone {where}"
        case Verb.LOSE if spec.crossing is Place.WEBHOOK_RESPONSE:
            where = _LOST_AT.get(str(argument) if argument is not None else None, "before the ack comes")
            return f"the event's sender is gone {where}"
        case Verb.LOSE:
            return f"{what} is lost"
        case Verb.HOLD:
            return f"{what} is held" + (f" as {spec.hold_label!r}" if spec.hold_label else "")
        case Verb.DELAY:
            return f"{what} comes {_number(argument)} s late" if argument is not None else f"{what} comes late"
        case Verb.DRIP:
            return f"{what} comes bit by bit, for {_number(argument)} s"
        case Verb.CUT:
            return f"{what} is cut after {_number(argument)} bytes"
        case Verb.RESET | Verb.CLOSE if spec.stage == "connect" and spec.crossing in STORE:
            return f"{what} is {'reset (RST)' if spec.verb is Verb.RESET else 'closed (FIN)'} as it is made"
        case Verb.RESET:
            return f"the connection is reset (RST) at {what}"
        case Verb.CLOSE:
            return f"the connection is closed (FIN) {'after' if argument == 'after-answer' else 'at'} {what}"
        case Verb.TWICE:
            return f"{what} comes twice"
        case Verb.GARBLE:
            body = GARBLED.get(str(argument), str(argument))
            if spec.crossing.endswith(".request"):
                return f"{what} is answered with success and {body}, and nothing is done"
            return f"{what} comes as {body}" if argument == "html" else f"{what} comes with {body}"
        case Verb.ANSWER:
            return _answer(spec, role) + _asks(spec)


def _answer(spec: FaultSpec, role: str) -> str:
    what = _number(spec.argument)
    if spec.crossing is Place.WEBHOOK_RESPONSE:
        return f"a gateway answers {what} in the place of the target's ack"
    if spec.crossing.startswith("provider."):
        return f"the provider answers {what}"
    if role != "client":
        return f"the other side answers {what}"
    if spec.crossing is Place.CLIENT_RESPONSE:
        return f"the API has done it, and the target is answered {what}"
    return f"the API answers {what} and does nothing"


def _asks(spec: FaultSpec) -> str:
    """Say what an answer asks of its caller."""
    text = ""
    if spec.retry_after is not None:
        date = " (said as a date)" if spec.retry_after.date is not None else ""
        text += f", and asks to wait {spec.retry_after.after:g} s{date}"
    if spec.location is not None:
        text += f", and sends the caller to {'the same' if spec.location == 'same' else 'another'} origin"
    return text


def _message(spec: FaultSpec, role: str) -> str:
    """Return what a fault is for: on the wire to a store, one store or some messages may be meant."""
    what = MESSAGE[spec.crossing]
    if role == "client":
        what = _OF_CLIENT.get(spec.crossing, what)
    if spec.crossing not in STORE:
        return what
    if spec.stage is not None:
        what = "the target's connection to its store"
    if spec.store is not None:
        what = what.replace("its store", f"its store {spec.store}").replace("the store's", f"store {spec.store}'s")
    return f"{what} that says {spec.message!r}" if spec.message else what


def _number(given: Any) -> str:
    return f"{given:g}" if isinstance(given, int | float) else str(given)
