"""The faults of one scenario while it is played: armed, labelled, released, and counted at the end."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from sendtwice.fake_provider.faults import Armed, Fault, Faults, Verb
from sendtwice.harness.history import Kind, Recorder


class Gates:
    """Faults by the labels under which a scenario knows them."""

    def __init__(self, scenario: str, recorder: Recorder) -> None:
        """Everything that is armed is noted as ``scenario``'s."""
        self._scenario, self._recorder = scenario, recorder
        self._labelled: dict[str, list[tuple[Armed, Faults]]] = {}
        self._silent: set[int] = set()

    def arm(self, fault: Fault, wires: Faults, *, label: str, silent: bool = False) -> Armed:
        """Put a fault on its wires. A ``silent`` one is the harness's own means: it need not fire."""
        armed = wires.arm(fault)
        self._labelled.setdefault(label, []).append((armed, wires))
        if silent:
            self._silent.add(id(armed))
        else:
            self._recorder.record(Kind.ARMED, scenario=self._scenario, fault=str(fault), label=label)
        return armed

    def release(self, label: str) -> None:
        """Open the gates of a label; a fault of another kind is withdrawn."""
        for armed, wires in self._labelled.get(label, ()):
            armed.gate.set()
            if armed.fault.verb is not Verb.HOLD:
                wires.withdraw(armed)

    def let_go(self) -> None:
        """Open every gate: what waits behind one goes on, and nothing is held any more."""
        for armed, wires in self._all():
            armed.gate.set()
            if armed.fault.verb is Verb.HOLD:
                wires.withdraw(armed)

    def withdraw(self) -> None:
        """Take every fault away, and note the ones that never fired."""
        for armed, wires in self._all():
            wires.withdraw(armed)
            if armed.fired == 0 and id(armed) not in self._silent:
                self._recorder.record(Kind.UNFIRED, scenario=self._scenario, fault=str(armed.fault))

    def met(self, label: str, times: int = 1) -> list[Coroutine[Any, Any, None]]:
        """Return what to await until each fault of a label has fired so often."""
        return [armed.fired_times(times) for armed, _ in self._labelled.get(label, ())]

    @property
    def holding(self) -> bool:
        """Whether something waits behind a gate now."""
        return any(
            armed.fault.verb is Verb.HOLD and armed.reached.is_set() and not armed.gate.is_set()
            for armed, _ in self._all()
        )

    def _all(self) -> Iterator[tuple[Armed, Faults]]:
        for many in self._labelled.values():
            yield from many
