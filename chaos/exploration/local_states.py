"""The states of single processes, and the effects of events on them: each computed only once.

A local state is known by the key of its canonical form. Production code runs only for a pair of
local state and event that did not occur before; the search itself works on keys. To run it, the
process is rebuilt from the events that led to the state, unless it was kept.
"""

from collections.abc import Callable
from typing import NamedTuple

from .processes.canonical import digest_of
from .processes.process import FAULT, TIME, ExploredProcess, Facts, Message


class Event(NamedTuple):
    """An event of one process: an action, or a message (its number) from a source."""

    action: str = ""
    source: int = 0
    connection: int = 0
    message: int = 0


class Output(NamedTuple):
    """A message that an event sent: the target, the connection and the message's number."""

    target: int
    connection: int
    message: int


class LocalState:
    """A state of one process."""

    __slots__ = (
        "actions",
        "awaited",
        "before",
        "connections",
        "effects",
        "event",
        "facts",
        "facts_number",
        "faults",
        "has_time",
        "is_done",
        "key",
        "process",
        "stuck",
    )

    def __init__(
        self,
        number: int,
        process: ExploredProcess,
        index: dict[str, int],
        facts_numbers: dict[tuple[object, ...], int],
        before: "LocalState | None",
        event: Event | None,
    ) -> None:
        actions = process.all_actions()
        self.process = number
        self.key = process.key()
        self.actions = tuple(a for a in actions if a != TIME and not a.startswith(FAULT))
        self.faults = tuple(a for a in actions if a.startswith(FAULT))
        self.has_time = TIME in actions
        self.is_done = process.is_done
        connections = {} if self.is_done else process.connections
        self.connections = {index[name]: n for name, n in connections.items()}
        awaited = () if self.is_done else process.awaited
        self.awaited = tuple(sorted(index[name] for name in awaited))
        self.stuck = "" if process.loop.has_timers else process.unfinished
        """Why this state must not be final (invariants V1, V3); empty if it may be."""
        self.facts: Facts = process.facts()
        self.facts_number = facts_numbers.setdefault(self.facts.key(), len(facts_numbers))
        """A number that is equal for equal facts."""
        self.before = before
        self.event = event
        self.effects: dict[Event, tuple[LocalState, tuple[Output, ...]]] = {}

    def events(self) -> list[Event]:
        """Return the events that lead here from the initial state."""
        found: list[Event] = []
        state: LocalState | None = self
        while state is not None and state.event is not None:
            found.append(state.event)
            state = state.before
        return found[::-1]


class LocalStates:
    """All local states that were reached, and the messages. ``makers`` create the processes.

    Without ``is_merging`` states are equal only if the same events led to them.
    """

    def __init__(
        self,
        makers: dict[str, Callable[[], ExploredProcess]],
        *,
        kept_max: int = 400,
        is_merging: bool = True,
    ) -> None:
        self.names = list(makers)
        self.index = {name: number for number, name in enumerate(makers)}
        self.effects_count = 0
        self._makers = list(makers.values())
        self._messages: dict[int, Message] = {}
        self._known: list[dict[int, LocalState]] = [{} for _ in makers]
        self._kept: dict[LocalState, ExploredProcess] = {}
        self._facts: dict[tuple[object, ...], int] = {}
        self._kept_max = kept_max
        self._is_merging = is_merging

    def message(self, number: int) -> Message:
        """Return the message with this number."""
        return self._messages[number]

    @property
    def count(self) -> int:
        """The number of local states."""
        return sum(map(len, self._known))

    def initial(self, number: int) -> tuple[LocalState, tuple[Output, ...]]:
        """Return the initial state of a process and what it sends when it begins."""
        process = self._makers[number]()
        outputs = self._outputs(process)
        state = LocalState(number, process, self.index, self._facts, None, None)
        return self._keep(state, process), outputs

    def effect(self, state: LocalState, event: Event) -> tuple[LocalState, tuple[Output, ...]]:
        """Return the state after an event, and the messages that it sends."""
        found = state.effects.get(event)
        if found is None:
            found = state.effects[event] = self._run(state, event)
        return found

    def _run(self, state: LocalState, event: Event) -> tuple[LocalState, tuple[Output, ...]]:
        process = self._kept.pop(state, None) or self._rebuild(state)
        self._apply(process, event)
        self.effects_count += 1
        outputs = self._outputs(process)
        after = LocalState(state.process, process, self.index, self._facts, state, event)
        if not self._is_merging:
            after.key = digest_of(repr((state.key, event)).encode())
        return self._keep(after, process), outputs

    def _keep(self, state: LocalState, process: ExploredProcess) -> LocalState:
        """Return the known state that equals ``state``; keep its process for the next event."""
        known = self._known[state.process].setdefault(state.key, state)
        if known is state and not state.is_done:
            self._kept[state] = process
            if len(self._kept) > self._kept_max:
                self._kept.pop(next(iter(self._kept))).discard()
        else:
            process.discard()
        return known

    def _rebuild(self, state: LocalState) -> ExploredProcess:
        process = self._makers[state.process]()
        for event in state.events():
            process.sent.clear()
            self._apply(process, event)
        process.sent.clear()
        return process

    def _apply(self, process: ExploredProcess, event: Event) -> None:
        if event.action:
            process.do(event.action)
        else:
            source = self.names[event.source]
            process.deliver(source, event.connection, self._messages[event.message])

    def _outputs(self, process: ExploredProcess) -> tuple[Output, ...]:
        found = []
        for sent in process.sent:
            number = digest_of(repr(sent.message).encode())
            self._messages[number] = sent.message
            found.append(Output(self.index[sent.to], sent.connection, number))
        process.sent.clear()
        return tuple(found)

    def number_of(self, message: Message) -> int:
        """Return the number of a message."""
        number = digest_of(repr(message).encode())
        self._messages[number] = message
        return number

    def close(self) -> None:
        """Release all processes."""
        for process in self._kept.values():
            process.discard()
        self._kept.clear()
