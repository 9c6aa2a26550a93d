"""Reads Redis's protocol, RESP 2 and 3: every command is a request, also in a pipeline, and every reply an answer.

A request says the command, its options, and what its key begins with where that is a word (``lock:...``); all other
arguments are ``?``. A script is told by the beginning of its SHA1, the same for EVAL and EVALSHA. An answer says what
the command has come to, and which command::

    SET lock:… ? NX PX ?
    (nil) for SET lock:… ? NX PX ?

What the server says unasked (messages of a channel, invalidated keys) is a message of its own, a ``push``. Commands
that wait for an event (BLPOP, XREAD BLOCK) do not count as unanswered: that may never end.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sendtwice.harness.edges.chunks import Chunk, Segments, answering
from sendtwice.harness.edges.frames import PartsReader, UnreadableError
from sendtwice.harness.edges.sql import shortened, unnumbered

#: What is kept of a string: an option's name, a key's beginning. Scripts are kept whole, for their SHA1.
_KEPT, _SCRIPT = 64, 64 * 1024
#: How many elements of a command or a reply are looked at.
_ELEMENTS = 32
_LINE = 64 * 1024
#: Numbers that mean something: done, not done, no such key. Others are counters, and differ from run to run.
_TELLING = range(-2, 2)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONTAINERS = _words(
    "ACL CLIENT CLUSTER COMMAND CONFIG DEBUG FUNCTION LATENCY MEMORY MODULE OBJECT PUBSUB SCRIPT SLOWLOG XGROUP XINFO"
)
_SCRIPTS = _words("EVAL EVAL_RO EVALSHA EVALSHA_RO")
_FUNCTIONS = _words("FCALL FCALL_RO")
_SUBSCRIBES = _words("SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE")
_WAITS = _words("BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF MONITOR")
#: Commands whose first argument is no key.
_KEYLESS = _words("AUTH HELLO ECHO PING SELECT INFO MIGRATE QUIT SHUTDOWN REPLICAOF KEYS SCAN PUBLISH SPUBLISH")
#: Words among the arguments that say what the command does.
_OPTIONS = _words(
    """NX XX GT LT CH EX PX EXAT PXAT KEEPTTL GET PERSIST IFEQ IFNE COUNT MATCH TYPE BLOCK NOACK STREAMS GROUP
    MKSTREAM NOMKSTREAM MAXLEN MINID LIMIT WITHSCORES WITHVALUES BY ASC DESC ALPHA STORE REPLACE ABSTTL LEFT RIGHT
    BEFORE AFTER FIELDS FNX FXX REV BYSCORE BYLEX IDLE JUSTID FORCE AUTH SETNAME"""
)
#: A key's beginning is shown when it is words. None of them is as long as a token that is made for one run.
_PREFIX = re.compile(rb"[A-Za-z]{1,11}(?:[_.-][A-Za-z]{1,11})*[:/|]")
_FIRST_WORDS = re.compile(rb"(?i)(?:PING|AUTH|HELLO|SELECT|CLIENT)[ \r]")

Value = str | int | bytes | list["Value"] | None


def begins(data: bytes) -> bool | None:
    """Whether a client that begins so speaks RESP; None when more must be seen."""
    if data[:1] == b"*":
        return data[1:2].isdigit() if len(data) > 1 else None
    return _FIRST_WORDS.match(data) is not None


class _Error(str):
    """An error that the server answers with."""

    __slots__ = ()


@dataclass(slots=True)
class _Array:
    """A list whose end has not come yet."""

    left: int
    note: bool = False  # an attribute: it comes before the reply that it is about
    found: list[Value] = field(default_factory=list)


class _Values:
    """Cuts a stream of RESP values; of ``commands``, those that come on a line without a type as well."""

    def __init__(self, *, commands: bool) -> None:
        self.value: Value = None
        self.push = False
        self._commands = commands
        self._line = bytearray()
        self._bulk: bytearray | None = None
        self._failed = False  # the string is an error's
        self._kept = 0
        self._left = 0  # of a string, with the end of its line
        self._stack: list[_Array] = []

    @property
    def partial(self) -> list[Value]:
        """The first elements of a value whose end has not come yet."""
        return self._stack[0].found if self._stack else []

    def cut(self, data: bytes) -> Iterator[tuple[int, bool]]:
        """Return up to where each piece goes, and whether a whole value ends there."""
        at, given, size = 0, 0, len(data)
        while at < size:
            if self._bulk is None:
                newline = data.find(b"\n", at)
                end = size if newline < 0 else newline + 1
                self._line += data[at:end]
                if len(self._line) > _LINE:
                    raise UnreadableError
                complete = newline >= 0 and self._typed()
            else:
                end = min(at + self._left, size)
                room = min(self._kept - len(self._bulk), self._left - 2)
                self._bulk += data[at : min(end, at + max(room, 0))]
                self._left -= end - at
                complete = self._left == 0 and self._string()
            at = end
            if complete:
                given = at
                yield at, True
        if given < at:
            yield at, False

    def _typed(self) -> bool:
        """Take in a line; True when a whole value ends with it."""
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        kind, rest, top = line[:1], line[1:], not self._stack
        if self._commands and kind != (b"*" if top else b"$"):
            if not top:
                raise UnreadableError
            return self._have([*line.split()])
        if kind in b"$!=*~>%|" and kind:
            return self._sized(kind, _number(rest), top=top)
        self.push = self.push and not top
        text = rest.decode("utf-8", "replace")
        match kind:
            case b"+":
                return self._have(text)
            case b"-":
                return self._have(_Error(text))
            case b":":
                return self._have(_number(rest))
            case b"_":
                return self._have(None)
            case b"#":
                return self._have("true" if text == "t" else "false")
            case b"," | b"(":
                return self._have("(number)")
            case _:
                raise UnreadableError

    def _sized(self, kind: bytes, size: int, *, top: bool) -> bool:
        """Begin a string or a list."""
        if top:
            self.push = kind == b">"
        if size < 0:
            return self._have(None)
        if kind in b"$!=":
            index = len(self._stack[-1].found) if self._stack else _ELEMENTS
            self._bulk, self._left, self._failed = bytearray(), size + 2, kind == b"!"
            self._kept = _SCRIPT if self._commands and index <= 2 else _KEPT
            return False
        note = kind == b"|"
        if size == 0:
            return not note and self._have([])
        self._stack.append(_Array(size * 2 if kind in b"%|" else size, note))
        return False

    def _string(self) -> bool:
        """Take in a string that has ended."""
        bulk, self._bulk = bytes(self._bulk or b""), None
        return self._have(_Error(bulk.decode("utf-8", "replace")) if self._failed else bulk)

    def _have(self, value: Value) -> bool:
        """Take in a value; True when it is whole, and not an element of another that is not."""
        while self._stack:
            array = self._stack[-1]
            if len(array.found) < _ELEMENTS:
                array.found.append(value)
            array.left -= 1
            if array.left:
                return False
            self._stack.pop()
            if array.note:
                return False
            value = array.found
        self.value = value
        return True


@dataclass(slots=True)
class _Asked:
    """A command that the server has yet to answer."""

    says: str
    waits: bool


class Redis(PartsReader):
    """Reads one connection."""

    def __init__(self) -> None:
        """Begin at the connection's first byte."""
        self._commands, self._replies = _Values(commands=True), _Values(commands=False)
        super().__init__(self._commands, self._replies)
        self._open: deque[_Asked] = deque()
        self._silent = False  # CLIENT REPLY OFF
        self._skipped = False  # CLIENT REPLY SKIP, for the next command
        self._subscribed = False
        self._said: str | None = None  # what a command said when its beginning was passed on

    @property
    def waiting(self) -> int:
        """How many commands are unanswered, but for those that wait for an event."""
        return sum(not asked.waits for asked in self._open)

    def heard(self) -> Iterator[Chunk]:
        """A command of the client has ended."""
        found = self._commands.value
        words = [word for word in found if isinstance(word, bytes)] if isinstance(found, list) else []
        if not words:
            yield self.request.ended(None)  # an empty line, an empty list: the server skips it
            return
        name = _upper(words[0])
        says, self._said = self._said or _command(words), None
        yield self.request.ended(says)
        reply = _upper(words[2]) if name == "CLIENT" and len(words) > 2 and _upper(words[1]) == "REPLY" else None
        skipped, self._skipped = self._skipped, reply == "SKIP"
        self._silent = reply == "OFF" or (self._silent and reply != "ON")
        if name in ("SYNC", "PSYNC"):
            self.opaque = Segments("replication")
        elif name in _SUBSCRIBES:
            self._subscribed = True  # each channel has a reply, and all look like what is said unasked
        elif not (self._silent or skipped or self._skipped):
            block = name in ("XREAD", "XREADGROUP") and any(_upper(word) == "BLOCK" for word in words)
            self._open.append(_Asked(says, waits=block or name in _WAITS))

    def told(self) -> Iterator[Chunk]:
        """A reply of the server has ended."""
        value = self._replies.value
        pushed = value[0] if isinstance(value, list) and value and isinstance(value[0], bytes) else None
        unasked = self._subscribed and pushed is not None and pushed.endswith((b"subscribe", b"message"))
        if self._replies.push or unasked:
            yield self.reply.ended(f"push {pushed.decode('utf-8', 'replace')}" if pushed else "push")
        elif not self._open:
            yield self.reply.ended("push")
        else:
            yield self.reply.ended(answering(_shown(value), self._open.popleft().says))

    def request_so_far(self) -> str:
        """Return what the command says that has not ended yet."""
        words = [word for word in self._commands.partial if isinstance(word, bytes)]
        self._said = _command(words) + " …" if words else "…"
        return self._said

    def reply_so_far(self) -> str:
        """Return what the reply says that has not ended yet."""
        return answering("(value)", self._open[0].says if self._open else "")


def _number(digits: bytes) -> int:
    try:
        return int(digits)
    except ValueError:
        raise UnreadableError from None


def _upper(word: bytes) -> str:
    return word[:_KEPT].decode("utf-8", "replace").upper()


def _command(words: list[bytes]) -> str:
    """Return what a command does, without its values."""
    name = _upper(words[0])
    shown, rest = [name], words[1:]
    if name in _CONTAINERS and rest:
        shown.append(_upper(rest.pop(0)))
    elif name in _SCRIPTS and rest:
        script = rest.pop(0)
        sha = script.decode("ascii", "replace").lower() if "SHA" in name else _sha(script)
        shown.append(sha[:8])
    elif name in _FUNCTIONS and rest:
        shown.append(rest.pop(0)[:_KEPT].decode("utf-8", "replace"))
    elif rest:
        first = rest.pop(0)
        shown.append("?" if name in _KEYLESS else _key(first))
    options = () if name == "AUTH" else _OPTIONS
    shown += [word if (word := _upper(given)) in options else "?" for given in rest]
    return shortened(" ".join(shown))


def _sha(script: bytes) -> str:
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()


def _key(key: bytes) -> str:
    """Return what a key begins with, where that is words and not a part of what makes it unique."""
    prefix = _PREFIX.match(key)
    return prefix.group().decode() + "…" if prefix else "?"


def _shown(value: Value) -> str:
    match value:
        case None:
            return "(nil)"
        case _Error():
            return unnumbered(value)
        case str():
            return value
        case int():
            return str(value) if value in _TELLING else "(integer)"
        case bytes():
            return "(value)"
        case list():
            return "[" + ", ".join([*map(_shown, value[:4]), *(["…"] if len(value) > 4 else [])]) + "]"
