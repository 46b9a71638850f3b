"""A process of an explored scope: takes one event, runs production code, and sends messages.

Two processes share nothing but messages. An event of one process therefore has the same effects
whatever the others did meanwhile, which is what makes the exploration fast: each effect is computed
once for each state of the process.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from .canonical import Opaque, digest
from .step_loop import Connector, StepLoop

STORE = "store"
"""The name of the process of the metadata store."""

TIME = "time passes"
"""An action that is only possible when no message is under way."""

FAULT = "fault: "
"""Prefix of the actions that are faults. Each of them happens at most once, at any time."""

LOSE_CONNECTION = FAULT + "loses its connection to "
POWER_LOSS = FAULT + "loses power and restarts"
DESTROYED = FAULT + "is destroyed"
UNKNOWN_OUTCOME = FAULT + "gets no reply from the metadata store"
REFUSAL = FAULT + "refuses one add"

_FIRINGS_MAX = 60


class Message(NamedTuple):
    """A message between processes. ``data`` is a frame, or the arguments of a store's operation."""

    kind: str
    data: tuple[object, ...] = ()


FRAME, LOST = "frame", "lost"
"""Kinds: a frame of the wire protocol; the notice that a connection ended (data: is it down?)."""


class Sent(NamedTuple):
    """A message and where it goes; ``connection`` numbers the connections of a pair."""

    to: str
    connection: int
    message: Message


@dataclass(slots=True)
class Facts:
    """The facts about a process that invariants compare."""

    violations: tuple[str, ...] = ()
    """Violations that the process alone proves, each as ``id: text``."""
    acked: tuple[int, ...] = ()
    """The entries whose writer was told that they are durable, in this order."""
    read: tuple[tuple[int, bytes], ...] = ()
    """The entries that a reader returned, with their payloads."""
    lac: int = -1
    """The highest LAC that a reader was told."""
    ends: tuple[tuple[int, int], ...] = ()
    """(last entry, length) of the closed metadata that a recovery or a close returned."""
    stored: dict[int, bytes] = field(default_factory=dict)
    """The durable entries of a bookie."""
    metadata: bytes = b""
    """The ledger's metadata in the store."""
    failed: str = ""
    """The error with which the work of a process ended; empty if there is none."""

    def key(self) -> tuple[object, ...]:
        """Return a value that is equal for equal facts."""
        return (
            self.violations,
            self.acked,
            self.read,
            self.lac,
            self.ends,
            tuple(self.stored.items()),
            self.metadata,
            self.failed,
        )


class ExploredProcess(Opaque):
    """The base of all processes. ``faults`` are those that may still happen to it."""

    def __init__(
        self,
        name: str,
        *,
        faults: tuple[str, ...] = (),
        time_steps: int = 0,
        connector: Connector | None = None,
    ) -> None:
        self.name = name
        self.loop = StepLoop(connector)
        self.sent: list[Sent] = []
        self.faults = list(faults)
        self.time_steps = time_steps
        self.violations: list[str] = []

    # --- events ---------------------------------------------------------------------------------

    def deliver(self, source: str, connection: int, message: Message) -> None:
        """Take a message."""
        self.loop.step(self.on_message, source, connection, message)

    def do(self, action: str) -> None:
        """Carry out one of ``actions``."""
        if action == TIME:
            self.time_steps -= 1
            for _ in range(_FIRINGS_MAX):
                self.loop.pass_time()
                if self.sent or not self.loop.has_timers or self.is_done:
                    break
            return
        if action.startswith(FAULT):
            self.faults.remove(action)
        self.loop.step(self.on_action, action)

    def on_message(self, source: str, connection: int, message: Message) -> None:
        """Handle a message inside the process's loop."""
        raise NotImplementedError

    def on_action(self, action: str) -> None:
        """Carry out an action inside the process's loop."""
        raise NotImplementedError

    # --- the state ------------------------------------------------------------------------------

    def actions(self) -> tuple[str, ...]:
        """Return the actions that are possible now, without ``TIME`` and faults."""
        return ()

    def possible_faults(self) -> tuple[str, ...]:
        """Return the faults that are possible now."""
        return tuple(self.faults)

    def all_actions(self) -> tuple[str, ...]:
        """Return every action that is possible now."""
        time = (TIME,) if self.time_steps > 0 and self.loop.has_timers and not self.is_done else ()
        return (*self.actions(), *self.possible_faults(), *time)

    @property
    def is_done(self) -> bool:
        """True if no message can change this process any more."""
        return False

    @property
    def unfinished(self) -> str:
        """The violation if nothing more happens to this process; empty if its work is done."""
        return ""

    @property
    def awaited(self) -> frozenset[str]:
        """The processes that will send something to this one, as far as it knows."""
        return frozenset()

    @property
    def connections(self) -> dict[str, int]:
        """The number of the present connection to each process that this one is connected to."""
        return {}

    def roots(self) -> tuple[object, ...]:
        """Return the objects whose canonical form is the state of the process."""
        raise NotImplementedError

    def key(self) -> int:
        """Return a number that is equal for equal states."""
        loop = self.loop
        timers = sorted(when for when, _, timer in loop._timers if not timer.cancelled())
        return digest(
            self.name,
            self.faults,
            self.time_steps,
            loop.now,
            [round(when - loop.now, 6) for when in timers],
            repr(self.facts().key()),
            *self.roots(),
        )

    def facts(self) -> Facts:
        """Return what is known for certain about this process."""
        raise NotImplementedError

    def found_violations(self) -> tuple[str, ...]:
        """Return the violations so far; an exception that nobody handles is one."""
        crashes = (f"CRASH: {type(error).__name__}: {error}" for error in self.loop.failures)
        return (*self.violations, *crashes)

    def discard(self) -> None:
        """Release the process."""
        self.loop.discard()
