"""What a scenario's names stand for while it is played: operations, contents, keys, attempts."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from typing import Any

from sendtwice.fake_provider.faults import Armed
from sendtwice.fake_provider.signatures import Flaw
from sendtwice.harness.attribution import Attribution, Content, Identity, token
from sendtwice.harness.drivers.caller import Flight
from sendtwice.harness.history import Kind, Recorder
from sendtwice.harness.mails import Draw, Words
from sendtwice.harness.scenario import Scenario
from sendtwice.harness.sends import Change, Key, Notify, Operate, Redeliver, Send


@dataclass(slots=True)
class Plan:
    """What an attempt asks for, with everything that ``like`` and ``change`` say filled in."""

    name: str
    operation: str
    recipients: list[str]
    content: Content
    key: str | Key | None
    by: str
    uid: str
    change: Change = field(default_factory=Change)
    count: int = 1
    content_name: str = ""
    event: str = ""
    via: str | None = None
    batch: bool = False
    dry_run: bool = False
    replica: int | None = None
    known_as: str = ""  # the operation's id, as a target of role client or consumer knows it
    message: str = ""  # role consumer: the id of the operation's message, the same in all events of it
    signature: Flaw | None = None  # what is wrong with the event's signature
    tells: str = ""  # what the provider tells of the operation's mail: delivered, bounced
    words: Words | None = None  # what its mail says, where mails are varied

    @property
    def subject(self) -> str:
        """The subject of its mail."""
        return f"Receipt {self.content.subject}" if self.words is None else self.words.subject

    @property
    def text(self) -> str:
        """The text of its mail."""
        return f"Thank you for your order {self.content.text}." if self.words is None else self.words.text


@dataclass(slots=True, eq=False)
class Live:
    """An attempt that has begun."""

    plan: Plan
    flight: Flight
    armed: list[Armed] = field(default_factory=list)


class Names:
    """The operations of one scenario, as they come up."""

    def __init__(
        self,
        scenario: Scenario,
        attribution: Attribution,
        recorder: Recorder,
        recipient: str,
        draw: Draw | None = None,
    ) -> None:
        """``recipient``: the template of an address, with ``{token}``; ``draw``: of what kinds the mails are."""
        self.scenario, self.route = scenario.id, scenario.route
        self.attribution, self.recorder, self.template, self.draw = attribution, recorder, recipient, draw
        self.plans: dict[str, Plan] = {}
        self.keys: dict[str, str] = {}
        self.first_sent: dict[str, float] = {}
        self._tokens: dict[str, str] = {}
        self._contents: dict[str, Content] = {}
        self._ids: dict[str, str] = {}
        self._events: dict[str, str] = {}
        self._messages: dict[str, str] = {}
        self.bodies: dict[tuple[str, str], bytes] = {}  # role consumer: an event says the same each time
        self._turns = itertools.count(1)
        self._declared: set[tuple[str, str]] = set()

    def turn(self) -> int:
        """Return whose turn it is among the target's instances: each attempt asks the next one."""
        return next(self._turns)

    def send(self, step: Send) -> Plan:
        """Return the plan of a send."""
        like = self.plans[step.like] if step.like else None
        operation = step.op or (like.operation if like else step.name)
        content = step.content or (like.content_name if like else step.name)
        key = step.key if "key" in step.model_fields_set else (like.key if like else step.name)
        by = step.by or (like.by if like else "main")
        count = step.items or step.recipients or (like.count if like else 1)
        recipient = like.operation if like and step.change.to != "other" and step.content is None else operation
        plan = self._plan(step.name, operation, recipient, content, key, by, count, step.change, like)
        plan.batch = step.items is not None or (like is not None and like.batch and step.recipients is None)
        plan.via = self.route if step.via == "each" else step.via or (like.via if like else None)
        plan.dry_run = step.dry_run
        plan.replica = step.replica
        return plan

    def operate(self, step: Operate | Notify) -> Plan:
        """Return the plan of an operation that the target performs by itself."""
        like = self.plans[step.like] if step.like else None
        operation = step.op or (like.operation if like else step.name)
        content = step.content or (like.content_name if like else step.name)
        recipient = like.operation if like else operation
        plan = self._plan(step.name, operation, recipient, content, None, "main", 1, Change(), like)
        plan.known_as = self._id(getattr(step, "known_as", None) or operation)
        return plan

    def notify(self, step: Notify) -> Plan:
        """Return the plan of an event: of a message that came in, or of what became of a mail."""
        like = self.plans[step.like] if step.like else None
        if step.about is not None:
            of = next(plan for plan in self.plans.values() if plan.operation == step.about)
            plan = self.plans[step.name] = replace(of, name=step.name, signature=None, tells=str(step.type))
        else:
            plan = self.operate(step)
        operation = plan.operation
        again = like is not None and like.operation == operation and step.event is None
        alias = None if step.event == "new" else step.event or step.name
        plan.event = like.event if like is not None and again else self._event(alias)
        plan.message = self._messages.setdefault(operation, f"msg_{token('m')}")
        plan.signature, plan.replica = step.signature, step.replica
        return plan

    def _event(self, alias: str | None) -> str:
        fresh = f"evt_{token('e')}"
        return fresh if alias is None else self._events.setdefault(alias, fresh)

    def redeliver(self, step: Redeliver) -> Plan:
        """Return the plan of the same event again."""
        like = self.plans[step.like]
        plan = replace(like, name=step.name, signature=step.signature, replica=step.replica)
        self.plans[step.name] = plan
        return plan

    def retry(self, name: str, of: Plan) -> Plan:
        """Return the plan of the same request again."""
        plan = self.plans[name] = replace(of, name=name, replica=None)
        return plan

    def _plan(
        self,
        name: str,
        operation: str,
        recipient: str,
        content_name: str,
        key: str | Key | None,
        by: str,
        count: int,
        change: Change,
        like: Plan | None,
    ) -> Plan:
        base = self._contents.setdefault(content_name, Content(token("s"), token("t")))
        content = Content(
            token("s") if change.subject else base.subject,
            token("t") if change.text else base.text,
        )
        if like is not None and not change.subject and not change.text and content_name == like.content_name:
            content = like.content
        if change.to == "other":
            recipient_token = token("r")
        elif like is not None and recipient == like.operation:
            recipient_token = like.uid.partition("+")[0]
        else:
            recipient_token = self._tokens.setdefault(recipient, token("r"))
        identity = self.attribution.add(Identity(self.scenario, operation, recipient_token, content))
        total = count + {"fewer": -1, "more": 1}.get(change.items or "", 0)
        recipients = [self._address(recipient_token, i, count, change) for i in range(total)]
        if (operation, identity.uid) not in self._declared:
            self._declared.add((operation, identity.uid))
            self.recorder.record(
                Kind.OPERATION,
                scenario=self.scenario,
                operation=operation,
                recipients=[] if change.to == "invalid" else recipients[: count - (change.items == "one-invalid")],
                group=identity.operation,
                content=identity.uid,
            )
        for alias in (key, getattr(key, "of", None)):
            if isinstance(alias, str) and alias not in self.keys:
                self.keys[alias] = f"st-{token('k')}-" + re.sub(r"[^A-Za-z0-9-]", "-", alias)
        plan = Plan(name, operation, recipients, content, key, by, identity.uid, change, count, content_name)
        plan.known_as = self._id(operation)
        plan.words = self.draw.words(content_name, content) if self.draw is not None else None
        self.plans[name] = plan
        return plan

    def _id(self, operation: str) -> str:
        """Return the id under which a target of role client is asked for an operation, each time the same."""
        return self._ids.setdefault(operation, f"op-{token('o')}")

    def _address(self, recipient: str, i: int, count: int, change: Change) -> str:
        if change.to == "invalid":
            return f"{recipient} is no address"
        local = recipient if count == 1 else f"{recipient}.{i + 1}"
        if self.draw is not None:
            return self.draw.address(recipient, local, self.template)
        return self.template.replace("{token}", local)

    def values(self, plan: Plan, sender: dict[str, str]) -> dict[str, Any]:
        """Return what a request template may say for this plan."""
        to: str | list[str] = plan.recipients if plan.count > 1 and not plan.batch else plan.recipients[0]
        return {
            "from": "sender@sendtwice.test",
            **sender,
            "operation": plan.operation,
            "to": to,
            "token": plan.uid.partition("+")[0],
            "id": f"st-{plan.uid.partition('+')[0]}",
            "subject": plan.subject,
            "text": plan.text,
            "reply_to": token("m") if plan.change.reply_to else None,
        }

    def items(self, plan: Plan) -> list[str] | None:
        """Return the recipients of a batch, one for each of its mails; None when it is no batch."""
        if not plan.batch:
            return None
        if plan.change.items == "one-invalid":
            return [*plan.recipients[:-1], f"{plan.uid.partition('+')[0]} is no address"]
        return plan.recipients
