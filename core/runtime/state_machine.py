"""State machines: transitions as data, a history of the last ones, and checks after each one.

A component that has a life cycle declares its states and events as ``Enum`` classes, whose values
are descriptions, and one ``TransitionTable``. Each object holds one ``StateMachine`` for as long as
it lives; there is none for a single add or read. The machine only decides which state follows. What
else happens is up to its owner, before or after ``take``. Nothing here reads a clock, waits, or
calls anything but ``check``.

``docs/reference/state-machines.md`` is generated from the tables.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from ..protocol.errors import InvariantBrokenError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)

STORY_MAX = 16
"""Number of transitions that a machine remembers."""

STORY_LINE_CHARS_MAX = 400
"""Maximum length of a story in a log line."""

Observer = Callable[[str, Enum, Enum], None]
"""Receives the name of the table, the old state and the event of each transition."""

_is_thorough = False
_observer: Observer | None = None


def check_thoroughly(is_on: bool) -> None:
    """Run ``check_all`` of every machine after each transition, or only ``check``.

    The simulator and the tests turn it on.
    """
    global _is_thorough
    _is_thorough = is_on


def observe_transitions(observer: Observer | None) -> None:
    """Call ``observer`` after each transition of any machine; None ends that.

    The simulator measures with it what a run reached.
    """
    global _observer
    _observer = observer


def story_line(story: str) -> str:
    """Return the latest transitions of a story in one line of bounded length, for a log."""
    found = ""
    for line in reversed(story.splitlines()):
        longer = f"{line}; {found}" if found else line
        if len(longer) > STORY_LINE_CHARS_MAX:
            return found or f"{line[: STORY_LINE_CHARS_MAX - 3]}..."
        found = longer
    return found


@dataclass(frozen=True)
class TransitionTable(Generic[S, E]):
    """The transitions of one kind of machine.

    ``text`` says what the machine is about, in sentences. A pair of state and event without an
    entry is impossible: it is a bug if it occurs.
    """

    name: str
    text: str
    initial: S
    transitions: Mapping[tuple[S, E], S]

    def __post_init__(self) -> None:
        """Raise ValueError if a state cannot be reached or an event never occurs."""
        reached = {self.initial, *self.transitions.values()}
        for state in type(self.initial):
            if state not in reached:
                raise ValueError(f"{self.name}: no transition leads to {state.name}")
        used = dict.fromkeys(event for _, event in self.transitions)
        for kind in dict.fromkeys(type(event) for event in used):
            for event in kind:
                if event not in used:
                    raise ValueError(f"{self.name}: no transition is caused by {event.name}")


class StateMachine(Generic[S, E]):
    """The state of one object, with its last transitions.

    ``name`` tells this machine from others of its kind, for example by an id. ``now`` returns the
    time of the story in seconds; the owner passes the clock of its loop. ``check`` and
    ``check_all`` assert the owner's invariants after a transition: the first always, and must be
    cheap; the second only after ``check_thoroughly``.
    """

    __slots__ = ("_check", "_check_all", "_name", "_now", "_story", "_table", "state")

    def __init__(
        self,
        table: TransitionTable[S, E],
        name: str = "",
        *,
        now: Callable[[], float] | None = None,
        check: Callable[[], None] | None = None,
        check_all: Callable[[], None] | None = None,
    ) -> None:
        self.state: S = table.initial
        self._table = table
        self._name = name
        self._now = now
        self._check = check
        self._check_all = check_all
        self._story: deque[tuple[float, S, E, S, str]] = deque(maxlen=STORY_MAX)

    def accepts(self, event: E) -> bool:
        """Return whether ``event`` is possible in this state."""
        return (self.state, event) in self._table.transitions

    def take(self, event: E, detail: str = "") -> S:
        """Take the transition of ``event`` and return the new state.

        ``detail`` appears in the story. Raises InvariantBrokenError, with the story, if the event
        is impossible in this state or a check fails.
        """
        old = self.state
        new = self._table.transitions.get((old, event))
        if new is None:
            raise self.broken(f"{event.name} is impossible in state {old.name}")
        now = 0.0 if self._now is None else self._now()
        self._story.append((now, old, event, new, detail))
        self.state = new
        if _observer is not None:
            _observer(self._table.name, old, event)
        self.check()
        return new

    def check(self) -> None:
        """Check the owner's invariants. Raises InvariantBrokenError with the story."""
        try:
            if self._check is not None:
                self._check()
            if _is_thorough and self._check_all is not None:
                self._check_all()
        except AssertionError as error:
            raise self.broken(f"a check failed in state {self.state.name}: {error}") from error

    def broken(self, message: str) -> InvariantBrokenError:
        """Return an error about this machine that carries its story."""
        return InvariantBrokenError(f"{self._label()}: {message}", self.story())

    def story(self) -> str:
        """Return the last transitions, one in a line, the oldest first."""
        return "\n".join(
            f"{time:.3f} s: {old.name} -> {new.name} by {event.name}{f' ({text})' if text else ''}"
            for time, old, event, new, text in self._story
        )

    def _label(self) -> str:
        return f"{self._table.name} {self._name}".rstrip()

    def __repr__(self) -> str:
        return f"<{self._label()}: {self.state.name}>"
