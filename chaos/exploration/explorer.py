"""The search: visits every state of a scope, depth first, and checks the invariants.

States that were visited are known by a key of 63 bits. The key of a state is computed from that of
the state before, and only states that are new are built. The search can be interrupted: what is
left to do is one schedule, and the events not yet tried in each of its states.
"""

import json
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .global_state import Transitions, key_of
from .invariants import ScopeInvariants
from .local_states import Event, LocalStates
from .nodes import NodeMove, State
from .processes.process import Facts

Step = tuple[int, Event]
"""An event of a process, given by its number."""

DEPTH_MAX = 400
"""Events of a schedule after which it is not continued; the scope then is not exhausted."""

_CHECK_EVERY = 64


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
    """CPU time."""
    is_complete: bool = False
    violations: list[FoundViolation] = field(default_factory=list)


class _Visit(NamedTuple):
    """A state of the present schedule, and the moves that were not tried in it yet."""

    state: State
    key: int
    moves: list[NodeMove]
    step: Step | None
    """The event that led to the state; None for the first one."""


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
        self.transitions = transitions
        self._invariants = invariants
        self._finals = finals
        self._violations_max = violations_max
        self._moves_of = transitions.to_explore if is_reduced else transitions.all_of
        self._visited: set[int] = set()
        self._checked: set[tuple[int, ...]] = set()
        self._stack: list[_Visit] = []
        self._is_cut = False  # a schedule was too long

    def run(self, seconds_max: float, states_max: int = 1 << 62) -> SearchResult:
        """Search until everything was visited, a violation was found, or the CPU time is up."""
        result = self.result
        seconds_before, begun = result.seconds, time.process_time()
        if not self._stack and not self._visited:
            self._begin()
        while self._stack and len(result.violations) < self._violations_max:
            result.seconds = seconds_before + time.process_time() - begun
            if result.seconds - seconds_before > seconds_max or result.states >= states_max:
                break
            self._try_moves(min(_CHECK_EVERY, states_max - result.states))
        result.is_complete = not self._stack and not self._is_cut
        result.local_states, result.effects = self.states.count, self.states.effects_count
        result.seconds = seconds_before + time.process_time() - begun
        return result

    def _begin(self) -> None:
        state = self.transitions.initial()
        key = key_of(state)
        self._visited.add(key)
        self._check(state)
        self._enter(state, key, None)

    def _try_moves(self, count: int) -> None:
        """Try the next moves, at most ``count``."""
        stack, visited, transitions = self._stack, self._visited, self.transitions
        key_after = transitions.key_after
        result = self.result
        for _ in range(count):
            while stack and not stack[-1].moves:
                stack.pop()
            if not stack or len(result.violations) >= self._violations_max:
                return
            visit = stack[-1]
            move = visit.moves.pop()
            result.transitions += 1
            key = key_after(visit.state, visit.key, move)
            if key in visited:
                result.schedules += 1
                continue
            visited.add(key)
            state = transitions.after(visit.state, move)
            self._enter(state, key, (move.node.local.process, move.event))
            if move.is_visible:
                self._check(state)

    def _enter(self, state: State, key: int, step: Step | None) -> None:
        """Put a new state on the stack."""
        result = self.result
        result.states += 1
        is_cut = len(self._stack) > DEPTH_MAX
        self._is_cut = self._is_cut or is_cut
        moves = [] if is_cut else self._moves_of(state)
        self._stack.append(_Visit(state, key, moves, step))
        if not moves and not is_cut:
            result.schedules += 1
            result.finals += 1
            for stuck in filter(None, (node.local.stuck for node in state)):
                result.violations.append(FoundViolation(stuck, self._schedule()))
            if self._finals is not None:
                self._finals(self._facts(state))

    def _schedule(self) -> list[Step]:
        return [visit.step for visit in self._stack if visit.step is not None]

    # --- invariants -----------------------------------------------------------------------------

    def _facts(self, state: State) -> dict[str, Facts]:
        names = self.states.names
        return {name: node.local.facts for name, node in zip(names, state, strict=True)}

    def _check(self, state: State) -> None:
        """Check the invariants, unless they were checked for the same facts before."""
        key = tuple([node.local.facts_number for node in state])
        if key in self._checked:
            return
        self._checked.add(key)
        for text in self._invariants.violations(self._facts(state)):
            self.result.violations.insert(0, FoundViolation(text, self._schedule()))
            break

    def progress(self) -> str:
        """Return the progress in a few words."""
        result = self.result
        left = [len(visit.moves) for visit in self._stack]
        return (
            f"{result.states} states, {self.states.count} local states, "
            f"{self.transitions.nodes.count} nodes, {result.seconds:.0f} s; events left to try "
            f"in the first states of the schedule: {left[:12]}"
        )

    # --- interruptions --------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write what is left to do, so that ``resume`` continues there."""
        result = self.result
        head = {
            "counts": [result.states, result.transitions, result.schedules, result.finals],
            "seconds": result.seconds,
            "is_cut": self._is_cut,
            "schedule": self._schedule(),
            "left": [[_step_of(move) for move in visit.moves] for visit in self._stack],
        }
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            array("q", self._visited).tofile(file)
        new.replace(path)

    def resume(self, path: Path) -> None:
        """Continue a search of the same scope and code that ``save`` interrupted."""
        visited = array("q")
        with path.open("rb") as file:
            head = json.loads(file.readline())
            visited.frombytes(file.read())
        self._visited = set(visited)
        result = self.result
        result.states, result.transitions, result.schedules, result.finals = head["counts"]
        result.seconds = head["seconds"]
        self._is_cut = head["is_cut"]
        state, step = self.transitions.initial(), None
        for index, left in enumerate(head["left"]):
            if index:
                step = _step(head["schedule"][index - 1])
                state = self.transitions.after(state, self.transitions.move_of(state, *step))
            moves = [self.transitions.move_of(state, *_step(data)) for data in left]
            self._stack.append(_Visit(state, key_of(state), moves, step))


def _step_of(move: NodeMove) -> Step:
    return move.node.local.process, move.event


def _step(data: list[object]) -> Step:
    number, event = data
    assert isinstance(number, int) and isinstance(event, list)
    return number, Event(*event)
