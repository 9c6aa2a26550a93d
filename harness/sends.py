"""What an attempt of a scenario asks for: its key, how it differs from the one it is like, and its faults."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from sendtwice.fake_provider.signatures import Flaw
from sendtwice.harness.fault_specs import Faulty, Strict


class Key(Strict):
    """A key that is more than a name: sized, re-cased, literal, doubled, quoted, padded, or absent.

    ``of`` names the key it derives from: keys of one name share a run-unique text.
    """

    of: str | None = None
    size: Literal["min", "max", "max+1", "max+long"] | int | None = None
    tail: str = ""
    case: Literal["lower", "upper"] | None = None
    text: str | None = None
    twice: Literal["same", "different"] | None = None
    quoted: bool | None = None
    padded: bool = False
    absent: bool = False


#: Other bytes for the same content; each has its claim in a contract (``fingerprint.*`` or ``batch.item_order``).
Form = Literal[
    "field-order",
    "whitespace",
    "number-form",
    "escapes",
    "empty-fields",
    "recipient-form",
    "recipient-order",
    "item-order",
]


class Change(Strict):
    """How a request differs from the one it is like. ``other`` gives a fresh value, ``invalid`` one that is refused.

    ``form`` keeps the content and writes it in other bytes; ``fields: reordered`` is its older spelling. ``excluded``
    changes a field that the contract says does not count. ``first_sent`` is the time that the caller asserts.
    """

    to: Literal["other", "invalid"] | None = None
    subject: Literal["other"] | None = None
    text: Literal["other"] | None = None
    reply_to: Literal["other"] | None = None
    excluded: Literal["other"] | None = None
    form: Form | None = None
    path: Literal["other"] | None = None
    query: Literal["other"] | None = None
    content_type: Literal["other"] | None = None
    items: Literal["fewer", "more", "one-invalid"] | None = None
    first_sent: Literal["stale", "malformed", "absent"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _older_spelling(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("fields") == "reordered":
            return {**{name: value for name, value in given.items() if name != "fields"}, "form": "field-order"}
        return given

    @property
    def other_content(self) -> bool:
        """Whether it asks for something else."""
        return any((self.to, self.subject, self.text, self.reply_to, self.items))


class Send(Faulty):
    """One request for an operation. ``via`` is a route of the contract; ``items`` makes it a batch of so many mails.

    ``replica`` is the number of the target's instance that is asked; by default each attempt asks the next one.
    """

    name: str = Field(alias="as")
    op: str | None = None
    key: str | Key | None = None
    content: str | None = None
    by: str | None = None
    like: str | None = None
    via: str | None = None
    replica: int | None = Field(default=None, ge=1, le=9)
    change: Change = Change()
    recipients: int | None = Field(default=None, ge=1, le=50)
    items: int | None = Field(default=None, ge=1, le=1000)
    dry_run: bool = False
    wait: Literal["answer", "none"] = "answer"

    @model_validator(mode="after")
    def _one_crowd(self) -> Self:
        if self.items is not None and self.recipients is not None:
            raise ValueError("give either items (mails of a batch) or recipients (of one mail), not both")
        return self


class Burst(Faulty):
    """``count`` attempts like one another, named ``as``.1, ``as``.2, ...; ``at`` lies on the provider's edge."""

    name: str = Field(alias="as")
    count: int = Field(ge=2, le=200)
    like: str | None = None
    op: str | None = None

    def notifies(self) -> list[Notify]:
        """Return the attempts as single steps, where they are events: copies of one event."""
        operation = self.op or (None if self.like else self.name)
        return [
            Notify(name=f"{self.name}.{i}", like=self.like or (f"{self.name}.1" if i > 1 else None), op=operation)
            for i in range(1, self.count + 1)
        ]

    def sends(self) -> list[Send]:
        """Return the attempts as single steps: the first like ``like``, the others like the first."""
        operation = self.op or (None if self.like else self.name)
        return [
            Send(name=f"{self.name}.{i}", like=self.like or (f"{self.name}.1" if i > 1 else None), op=operation)
            for i in range(1, self.count + 1)
        ]


class Operate(Faulty):
    """Role client: ask the target to perform an operation.

    ``known_as``: another operation, under whose id the target is asked: the same task, in other words.
    """

    name: str = Field(alias="as")
    op: str | None = None
    like: str | None = None
    content: str | None = None
    known_as: str | None = None
    wait: Literal["answer", "none"] = "answer"


class Notify(Faulty):
    """An event to the target: for role consumer a message that came in, for role api what became of ``op``'s mail.

    ``event`` names the event's id (``new``: another id for the same message); events of one name have the same id.
    ``signature``: what is wrong with it. ``about`` an operation: the provider's own event about the mail that was sent
    for it, of the ``type``. ``replica`` is the number of the target's instance that is told.
    """

    name: str = Field(alias="as")
    op: str | None = None
    like: str | None = None
    content: str | None = None
    event: str | None = None
    signature: Flaw | None = None
    about: str | None = None
    type: Literal["delivered", "bounced"] | None = None
    replica: int | None = Field(default=None, ge=1, le=9)
    wait: Literal["answer", "none"] = "answer"

    @model_validator(mode="after")
    def _tells_of_a_mail(self) -> Self:
        if (self.about is None) != (self.type is None):
            raise ValueError("about and type belong together: {about: OP, type: delivered}")
        if self.about is not None and (self.op or self.like or self.content):
            raise ValueError("an event about a mail is for the operation that it names; leave op, like and content out")
        return self


class Redeliver(Faulty):
    """Role consumer: the same event again, with a new time and signature."""

    name: str = Field(alias="as")
    like: str
    signature: Flaw | None = None
    replica: int | None = Field(default=None, ge=1, le=9)
    wait: Literal["answer", "none"] = "answer"
