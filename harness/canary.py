"""The canary: one plain mail before any scenario.

If it is accepted and does not reach the fake provider, the target may be using a real one, and nothing more is sent.
The same plain mail is the sentinel at the end of a run.
"""

from __future__ import annotations

from collections.abc import Sequence

from sendtwice.harness.history import Event, Kind
from sendtwice.harness.scenario import Scenario, parse

_PLAIN = {
    "api": "[{send: {as: mail}}]",
    "client": "[{operate: {as: mail}}]",
    "consumer": "[{notify: {as: mail}}]",
}


def plain_mail(scenario_id: str, role: str) -> Scenario:
    """Return the scenario of one plain mail: the canary and the sentinel."""
    return parse(f"{{id: {scenario_id}, title: One plain mail, role: {role}, steps: {_PLAIN[role]}}}")


def complaint(
    events: Sequence[Event], strays: Sequence[Event], role: str, uncounted: tuple[str, str] | None = None
) -> str | None:
    """Return in one line what is wrong with a canary and what to do; None when it arrived as it should.

    ``uncounted``: what to say of one that was accepted and did not arrive, where effects are counted elsewhere.
    """
    arrived = [e for e in events if e.kind is Kind.DELIVERY]
    if arrived:
        return _misled(events, arrived, role)
    if strays:
        return (
            f"the canary was delivered to {strays[-1].data['recipient']} without a trace of its recipient or "
            "content; sendtwice could not tell mails apart: see target.api.request"
        )
    how, remedy = _lost(events, role, uncounted)
    return f"the canary {how}; {remedy}"


def taken(events: Sequence[Event], *, told: bool) -> bool:
    """Whether a mail was delivered; ``told``: it is enough that its sender was told that it was sent."""
    if any(e.kind is Kind.DELIVERY for e in events):
        return True
    claimed = any(e.kind is Kind.TOLD and e.data["told"] == "sent" for e in events) or any(
        e.kind is Kind.ENDED and 200 <= (e.data.get("status") or 0) < 300 for e in events
    )
    return told and claimed


def _misled(events: Sequence[Event], arrived: Sequence[Event], role: str) -> str | None:
    """It must reach whom it was for, and whoever sent it must have been told something."""
    declared = str(next(e for e in events if e.kind is Kind.OPERATION).data["recipients"][0])
    token = declared.partition("@")[0]
    addresses = [str(e.data["recipient"]) for e in arrived]
    if not any(token in address.casefold() for address in addresses):
        return (
            f"the canary was for {declared} and was delivered to {addresses[0]}; nothing more is sent: "
            "let the target write to the address that it is given"
        )
    paths = {str(e.data.get("path")) for e in events if e.kind is Kind.PROVIDER_REQUEST}
    if len(paths) > 1:
        return (
            f"the target sent its provider requests to {' and '.join(sorted(paths))} for one mail, and each would "
            "count as a mail; point only what sends at {provider_url}"
        )
    ended = next((e for e in events if e.kind is Kind.ENDED), None)
    if role != "client" and ended is not None and ended.data["outcome"] != "answered":
        how = _UNANSWERED.get(ended.data["outcome"], str(ended.data["outcome"]))
        detail = f" ({ended.data['detail']})" if ended.data.get("detail") else ""
        return f"the canary arrived, but its caller {how}{detail}; mend the target's answer"
    return None


#: What became of a request that got no answer, with its sender as the subject.
_UNANSWERED = {
    "timed-out": "got no answer",
    "garbage": "got an answer that is no HTTP",
    "broken": "lost its connection before an answer",
    "unreachable": "could not be reached: nothing listens there",
}


def _lost(events: Sequence[Event], role: str, uncounted: tuple[str, str] | None) -> tuple[str, str]:
    """Return what became of a canary that did not reach the ledger, and what to do."""
    if role == "client":
        told = next((e for e in events if e.kind is Kind.TOLD), None)
        if told is not None and told.data["told"] == "sent" and uncounted is not None:
            return f"was reported as sent and {uncounted[0]}", uncounted[1]
        if told is not None and told.data["told"] == "sent":
            return "was reported as sent and did not reach the fake provider", "point the client at {api_url}"
        answers = [e for e in events if e.kind is Kind.ENDED and e.data.get("status")]
        answered = ""
        if answers:
            body = " ".join(str(answers[-1].data.get("body", "")).split())[:160]
            answered = f", and the API had answered {answers[-1].data['status']}: {body}"
        if told is None:
            return f"was not sent (the client said nothing){answered}", "see the client's output"
        if told.data["status"] is None:
            said = str(told.data["told"]).replace("_", " ")
            return (
                f"was not sent (the function says: {said}){answered}",
                "let it send one plain mail to the API's address",
            )
        return f"was not sent (status {told.data['status']}){answered}", "see the client's output"
    ended = next((e for e in events if e.kind is Kind.ENDED), None)
    if ended is None:
        return "was never sent", "see the target's output"
    if ended.data["outcome"] != "answered":
        how = _UNANSWERED.get(ended.data["outcome"], ended.data["outcome"])
        detail = f" ({ended.data['detail']})" if ended.data.get("detail") else ""
        if role == "consumer" and ended.data["outcome"] == "unreachable":
            return f"found no consumer: nothing listens there{detail}", "start it, or mend target.consumer.url"
        return f"{how}{detail}", "check target url and see the target's output"
    status = ended.data["status"]
    body = " ".join(str(ended.data.get("body", "")).split())[:160]
    if 200 <= status < 300 and uncounted is not None:
        return f"was answered {status} and {uncounted[0]}", uncounted[1]
    if 200 <= status < 300:
        return (
            f"was answered {status} and did not reach the fake provider",
            (
                "the target may be using a real provider, so nothing more is sent: "
                "hand it {provider_url} or see target.provider"
            ),
        )
    refused = f"was refused with {status}: {body}" if body else f"was refused with {status}"
    if role == "consumer":
        return refused, f"a plain event must be acknowledged first: see {_why_refused(status)}"
    return refused, "a plain mail must be accepted first: see target.api.request, headers and senders.main"


def _why_refused(status: int) -> str:
    """Return what in a target file may be why a consumer refuses a plain event."""
    if status in (404, 405):
        return "the path in target.consumer.url"
    if status in (401, 403):
        return "target.consumer.signature and secret"
    return "target.consumer.event, signature and secret" if status < 500 else "the target's output"
