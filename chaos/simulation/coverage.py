"""The situations that a run reached: which state transitions followed each other in a process.

State machines decide what is rare in this system: recoveries, ensemble changes, limbo, sessions,
hand-overs. A situation is a pair of transitions of any machines, the second being the next one in
the same process. It is reduced to 32 bits, which are the same in every process.
"""

from enum import Enum
from typing import Self
from zlib import crc32

from ...core.runtime.state_machine import observe_transitions
from .world.process import PROCESS

_Step = tuple[str, Enum, Enum]
"""The name of the table, the old state and the event."""


class TransitionCoverage:
    """Collects the ``situations`` of one run, between entering and leaving it."""

    def __init__(self) -> None:
        self.situations: dict[int, None] = {}
        self._last: dict[str, _Step] = {}
        """The last transition of each process, by the process's name."""
        self._seen: dict[tuple[_Step | None, _Step], None] = {}

    def __enter__(self) -> Self:
        observe_transitions(self.add)
        return self

    def __exit__(self, *_: object) -> None:
        observe_transitions(None)

    def add(self, table: str, old: Enum, event: Enum) -> None:
        """Note a transition of a machine in the running process."""
        process = PROCESS.get()
        name = "" if process is None else process.name
        step = table, old, event
        pair = self._last.get(name), step
        self._last[name] = step
        if pair not in self._seen:
            self._seen[pair] = None
            self.situations[crc32(" ".join(map(_describe, pair)).encode())] = None


def _describe(step: _Step | None) -> str:
    return "begin" if step is None else f"{step[0]} {step[1].name} {step[2].name}"
