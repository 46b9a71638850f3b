"""Simulated processes: all code runs in one, and stops for good when the process is killed.

The current process is a context variable. Every handle, task and timer carries the context in which
it was scheduled, so the loop can tell which process it belongs to.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ProcessState(Enum):
    """RUNNING <-> PAUSED -> DEAD."""

    RUNNING = 1
    PAUSED = 2  # SIGSTOP: handles wait, timers fire late
    DEAD = 3  # SIGKILL: nothing runs again, not even finally blocks


class SimProcess:
    """One incarnation of a program on a simulated host.

    Invariant: a dead process never runs again. Its tasks are kept in ``tasks`` until the run ends,
    because collecting them would run their ``finally`` blocks, which a killed process does not do.
    """

    __slots__ = ("_prune_at", "context", "held", "name", "node", "on_death", "state", "tasks")

    def __init__(self, name: str, node: str) -> None:
        self.name = name
        self.node = node  # the name of its host
        self.state = ProcessState.RUNNING
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_death: list[Callable[[], None]] = []
        self._prune_at = 64
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name} {self.state.name.lower()}>"

    @property
    def is_dead(self) -> bool:
        """True if it was killed or ended."""
        return self.state is ProcessState.DEAD

    @property
    def is_running(self) -> bool:
        """True if it is neither paused nor dead."""
        return self.state is ProcessState.RUNNING

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        """Keep ``task`` from being garbage collected before it ends."""
        self.tasks.append(task)
        if len(self.tasks) > self._prune_at:
            self.tasks = [known for known in self.tasks if not known.done()]
            self._prune_at = max(64, 2 * len(self.tasks))

    def pause(self) -> None:
        """Pause the process (SIGSTOP) until ``SimLoop.resume``. Safe to repeat."""
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED

    def die(self) -> None:
        """Kill the process (SIGKILL): none of its code runs from now on. Safe to repeat."""
        if self.state is ProcessState.DEAD:
            return
        self.state = ProcessState.DEAD
        self.held.clear()
        for callback in self.on_death:
            callback()
        self.on_death.clear()


PROCESS: ContextVar[SimProcess | None] = ContextVar("simulated process", default=None)
"""The process of the running code; None: the simulation itself, which never dies."""


def in_world(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call ``function`` as the simulation itself: what it schedules outlives every process."""
    return Context().run(function, *args)
