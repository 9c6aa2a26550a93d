"""The words of a timeline: endings, faults, and the short forms of addresses and keys. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sendtwice.harness.fault_words import BREAKS_OFF, GARBLED

_ENDS = {
    "lost": "✂ answer of {who} lost",
    "hung-up": "✂ caller of {who} hung up (RST)",
    "timed-out": "✗ {who} got no answer in time",
    "broken": "✗ {who}: the target cut the connection",
    "garbage": "✗ {who} got an answer that is no HTTP",
    "unreachable": "✗ {who} could not connect",
    "never-sent": "✂ {who} lost on its way to the target",
}

_FAULTS = {
    ("client.request", "lose"): "✂ request lost on its way to the target",
    ("provider.request", "lose"): "✂ the mail is lost on its way to the provider",
    ("provider.request", "hold"): "⏸ the mail is held before the provider commits it",
    ("provider.response", "hold"): "⏸ the provider's answer is held",
    ("provider.response", "lose"): "✂ the provider's answer is lost",
    ("client.request", "hold"): "⏸ the caller's request is held",
    ("client.response", "hold"): "⏸ the answer to the caller is held",
    ("client.request", "garble"): "✂ {what} is answered with success and {argument}, and nothing is done",
    ("webhook.response", "answer"): "✂ a gateway answers {argument} in the place of {what}",
}
_THINGS = {
    "client.request": "the caller's request",
    "client.response": "the answer to the caller",
    "provider.request": "the mail to the provider",
    "provider.response": "the provider's answer",
    "webhook.request": "the provider's event",
    "webhook.response": "the target's ack",
    "store.request": "the message to {store}",
    "store.response": "the answer of {store}",
}
_VERBS = {
    "lose": "✂ {what} is lost",
    "hold": "⏸ {what} is held",
    "delay": "⏸ {what} comes {argument} s late",
    "cut": "✂ {what} is cut after {argument} bytes",
    "reset": "✂ the connection is reset (RST) at {what}",
    "close": "✂ the connection is closed (FIN) at {what}",
    "twice": "{what} comes twice",
    "answer": "✂ {what} is answered {argument}",
    "garble": "✂ {what} comes with {argument}",
    "drip": "⏸ {what} comes bit by bit, for {argument} s",
}
#: What there is of a message before it is whole.
_STAGES = {"headers": "the head of {what}", "connect": "the connection of {what}"}


def ending(outcome: str, data: Mapping[str, Any], *, requested: bool) -> tuple[str, str]:
    """Return how an attempt ended without an answer (with ``{who}``), and what more is known of it."""
    shape = _ENDS.get(outcome, "{who}: " + outcome.replace("{", "{{").replace("}", "}}"))
    detail = str(data.get("detail") or "")
    if outcome == "lost" and data.get("never_arrived"):
        shape = _ENDS["never-sent"]
    elif outcome == "lost" and requested and detail:
        shape += " (caller reset)"
    return shape, "" if outcome == "hung-up" else detail


def fault(data: Mapping[str, Any]) -> str:
    """Return what a fault that fired did."""
    place, verb = str(data.get("place")), str(data.get("verb"))
    told = str(data.get("fault", f"{place}: {verb}"))
    argument, stage = data.get("argument"), str(data.get("stage"))
    template = _VERBS.get(verb) if stage in _STAGES else _FAULTS.get((place, verb)) or _VERBS.get(verb)
    what = _THINGS.get(place, place).format(store=data.get("store", "the store"))
    if breaks_off(data):
        return f"✂ {what} breaks off {BREAKS_OFF[str(argument)]}"
    if template is None:
        return told
    if stage == "connect" and place.startswith("store."):
        what = what.replace("message", "connection")
    elif stage in _STAGES:
        what = _STAGES[stage].format(what=what)
    if argument == "after-answer":
        return f"✂ the connection is closed (FIN) after {what}"
    shown = f"{argument:g}" if isinstance(argument, float) else str(argument)
    if verb == "garble":
        shown = GARBLED.get(shown, shown)
    # What else an answer says stands behind its status, in the fault's own words.
    _, _, more = told.partition(f": answer {argument}") if verb == "answer" else ("", "", "")
    return template.format(what=what, argument=shown) + more


def breaks_off(data: Mapping[str, Any]) -> bool:
    """Whether a fault lets the beginning of an answer through."""
    return data.get("verb") == "lose" and data.get("place") == "client.response" and data.get("argument") in BREAKS_OFF


def short(address: str) -> str:
    """Return an address with its token cut: what matters is that two are equal."""
    local, at, domain = address.partition("@")
    return f"{local[:5]}…{at}{domain}" if len(local) > 6 else address


def short_key(key: str | None) -> str:
    """Return a key so that it can be compared by eye; a long one with its length."""
    if key is None:
        return "none"
    if key == "":
        return '""'
    shown = key if key.isprintable() else ascii(key)[1:-1]
    # Keys of a pair often differ in their last characters only.
    return shown if len(shown) <= 32 else f"{shown[:16]}…{shown[-10:]} ({len(key)} characters)"
