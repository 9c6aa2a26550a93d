"""The words of a timeline: endings, faults, and the short forms of addresses and keys. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
}


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
    template = _FAULTS.get((place, verb)) or _VERBS.get(verb)
    if template is None:
        return str(data.get("fault", f"{place}: {verb}"))
    argument = data.get("argument")
    shown = f"{argument:g}" if isinstance(argument, float) else str(argument)
    what = _THINGS.get(place, place).format(store=data.get("store", "the store"))
    if data.get("stage") == "connect":
        what = what.replace("message", "connection")
    return template.format(what=what, argument=shown)


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
