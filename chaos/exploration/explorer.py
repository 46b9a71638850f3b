"""The search: visits every state of a scope, depth first, and checks the invariants.

States that were visited are known by a hash of 64 bits. The search can be interrupted: its
frontier is a list of schedules, from which a later run rebuilds the states that are left.
"""

import json
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .global_state import GlobalState, Transitions
from .invariants import ScopeInvariants
from .local_states import Event, LocalStates
from .processes.process import Facts

Step = tuple[int, Event]
"""An event of a process, given by its number."""

DEPTH_MAX = 400
"""Events of a schedule after which it is not continued; the scope then is not exhausted."""

_CHECK_EVERY = 10


@dataclass(slots=True)
class FoundViolation:
    """A violated invariant, and the schedule that leads to it."""

    text: str
    schedule: list[Step]

    @property
    def id(self) -> str:
        """The id of the invariant."""
        return self.text.partition(":")[0]


@dataclass(slots=True)
class SearchResult:
    """The outcome of a search."""

    states: int = 0
    """Distinct states of the scope that were visited."""
    transitions: int = 0
    schedules: int = 0
    """Complete schedules: those that end in a final state or in one that was visited before."""
    finals: int = 0
    """Distinct states in which nothing can happen any more."""
    local_states: int = 0
    """Distinct states of single processes."""
    effects: int = 0
    """Events for which production code ran."""
    seconds: float = 0.0
    is_complete: bool = False
    violations: list[FoundViolation] = field(default_factory=list)


class Explorer:
    """Explores one scope. ``finals`` receives the facts of each final state."""

    def __init__(
        self,
        states: LocalStates,
        transitions: Transitions,
        invariants: ScopeInvariants,
        *,
        finals: Callable[[dict[str, Facts]], None] | None = None,
        violations_max: int = 1,
        is_reduced: bool = True,
    ) -> None:
        self.result = SearchResult()
        self.states = states
        self._transitions = transitions
        self._invariants = invariants
        self._finals = finals
        self._violations_max = violations_max
        self._is_reduced = is_reduced
        self._visited: set[int] = set()
        self._checked: set[tuple[object, ...]] = set()
        self._stack: list[tuple[GlobalState, list[Step], Step | None]] = []
        self._path: list[Step] = []
        self._is_cut = False  # a schedule was too long

    def run(self, seconds_max: float, states_max: int = 1 << 62) -> SearchResult:
        """Search until everything was visited, a violation was found, or the time is up."""
        result = self.result
        begun = time.monotonic()
        seconds_before = result.seconds
        if not self._stack and not self._visited:
            self._enter(self._transitions.initial(), None)
        stack = self._stack
        while stack and len(result.violations) < self._violations_max:
            state, events, _ = stack[-1]
            if not events:
                if stack.pop()[2] is not None:
                    self._path.pop()
                continue
            if not result.transitions % _CHECK_EVERY:
                result.seconds = seconds_before + time.monotonic() - begun
                if result.seconds - seconds_before > seconds_max or result.states >= states_max:
                    break
            step = events.pop()
            result.transitions += 1
            self._enter(self._transitions.after(state, *step), step)
        result.is_complete = not stack and not self._is_cut
        result.local_states, result.effects = self.states.count, self.states.effects_count
        result.seconds = seconds_before + time.monotonic() - begun
        return result

    def _enter(self, state: GlobalState, step: Step | None) -> None:
        key = state.key()
        if key in self._visited:
            self.result.schedules += 1
            return
        self._visited.add(key)
        self.result.states += 1
        if step is not None:
            self._path.append(step)
        self._check(state)
        if len(self._path) >= DEPTH_MAX:
            self._is_cut = True
            self._stack.append((state, [], step))
            return
        events = self._events(state)
        if not events:
            self.result.schedules += 1
            self.result.finals += 1
            for stuck in filter(None, (local.stuck for local in state.locals)):
                self.result.violations.append(FoundViolation(stuck, list(self._path)))
            if self._finals is not None:
                self._finals(self._facts(state))
        self._stack.append((state, events, step))

    def _events(self, state: GlobalState) -> list[Step]:
        if self._is_reduced:
            return self._transitions.to_explore(state)
        found = self._transitions.all_of(state)
        return [(number, event) for number, events in found.items() for event in events]

    # --- invariants -----------------------------------------------------------------------------

    def _facts(self, state: GlobalState) -> dict[str, Facts]:
        names = self.states.names
        return {name: local.facts for name, local in zip(names, state.locals, strict=True)}

    def _check(self, state: GlobalState) -> None:
        key = tuple([local.facts_key for local in state.locals])
        if key in self._checked:
            return
        self._checked.add(key)
        for text in self._invariants.violations(self._facts(state)):
            self.result.violations.append(FoundViolation(text, list(self._path)))
            break

    # --- interruptions --------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write what is left to do, so that ``resume`` continues there."""
        frontier = [
            [self._path[: self._depth_of(at)], events]
            for at, (_, events, _) in enumerate(self._stack)
            if events
        ]
        result = self.result
        counts = [result.states, result.transitions, result.schedules, result.finals]
        head = {"counts": counts, "seconds": result.seconds, "frontier": frontier}
        path.with_suffix(".visited").write_bytes(array("q", self._visited).tobytes())
        path.write_text(json.dumps(head))

    def _depth_of(self, at: int) -> int:
        return sum(step is not None for _, _, step in self._stack[: at + 1])

    def resume(self, path: Path) -> None:
        """Continue a search of the same scope and code that ``save`` interrupted."""
        head = json.loads(path.read_text())
        visited = array("q")
        visited.frombytes(path.with_suffix(".visited").read_bytes())
        self._visited = set(visited)
        result = self.result
        result.states, result.transitions, result.schedules, result.finals = head["counts"]
        result.seconds = head["seconds"]
        for schedule, events in head["frontier"]:
            self._restore([_step(s) for s in schedule], [_step(e) for e in events])

    def _restore(self, schedule: list[Step], events: list[Step]) -> None:
        """Put the states of a schedule on the stack, and what is left to do at its end."""
        state = self._transitions.initial()
        self._stack.append((state, [], None)) if not self._stack else None
        at = 0
        while at < len(self._path) and at < len(schedule) and self._path[at] == schedule[at]:
            at += 1
        assert at == len(self._path), "schedules of a frontier extend each other"
        state = self._stack[-1][0]
        for step in schedule[at:]:
            state = self._transitions.after(state, *step)
            self._stack.append((state, [], step))
            self._path.append(step)
        self._stack[-1][1].extend(events)


def _step(data: list[object]) -> Step:
    number, event = data
    assert isinstance(number, int) and isinstance(event, list)
    return number, Event(*event)
