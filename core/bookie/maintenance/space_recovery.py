"""Space recovery: whether a bookie that is short of space can free some, and what prevents it.

Maintenance reports each round here. The state, the obstacles and their log lines tell an operator
whether to wait, to remove an obstacle, or to add space (rule BKE-30).
"""

import asyncio
from collections.abc import Callable
from enum import Enum, unique

from ...protocol.bookie_id import BookieId
from ...runtime.event_log import EventLog, LogLimit
from ...runtime.state_machine import StateMachine, TransitionTable

_LOG = EventLog(__name__)

_REPEAT_MS = 600_000


@unique
class SpaceState(Enum):
    """The states of space recovery."""

    ENOUGH = "There is space for plain adds."
    FREEING = "Space is short, and maintenance looks for garbage or removes it."
    BLOCKED = "Space is short, and an obstacle keeps maintenance from freeing it."
    EXHAUSTED = "Space is short, and everything on the disk is live."


@unique
class SpaceEvent(Enum):
    """The results of a round of maintenance for the space."""

    HAS_ROOM = "there is space for plain adds"
    HAS_WORK = "space is short, and there is more to do"
    HAS_OBSTACLE = "space is short, and work that would free space failed"
    HAS_NO_GARBAGE = "space is short, and nothing is left to free"


_REACHED = {
    SpaceEvent.HAS_ROOM: SpaceState.ENOUGH,
    SpaceEvent.HAS_WORK: SpaceState.FREEING,
    SpaceEvent.HAS_OBSTACLE: SpaceState.BLOCKED,
    SpaceEvent.HAS_NO_GARBAGE: SpaceState.EXHAUSTED,
}

SPACE_RECOVERY = TransitionTable(
    "space recovery",
    "Whether a bookie that is short of disk space can free some.",
    SpaceState.ENOUGH,
    {
        (state, event): reached
        for state in SpaceState
        for event, reached in _REACHED.items()
        if state is not reached
    },
)


def space_event(*, is_short: bool, has_obstacles: bool, has_work: bool) -> SpaceEvent:
    """Return what a round of maintenance found out."""
    if not is_short:
        return SpaceEvent.HAS_ROOM
    if has_obstacles:
        return SpaceEvent.HAS_OBSTACLE
    return SpaceEvent.HAS_WORK if has_work else SpaceEvent.HAS_NO_GARBAGE


class SpaceRecovery:
    """The state of space recovery of one bookie, and the obstacles by kind of work."""

    def __init__(self, bookie: BookieId, now: Callable[[], float]) -> None:
        self._bookie = bookie
        self._machine = StateMachine(SPACE_RECOVERY, str(bookie), now=now)
        self._log_limit = LogLimit(_REPEAT_MS)
        self.obstacles: dict[str, str] = {}
        """The reason why a kind of maintenance work is not done, by the name of the work."""

    @property
    def state(self) -> SpaceState:
        """The current state."""
        return self._machine.state

    def end_round(self, *, is_short: bool, has_work: bool, free_bytes: int) -> None:
        """Records the result of a round of maintenance and logs what changed.

        Obstacles that remain are logged again every ten minutes.
        """
        has_obstacles = bool(self.obstacles)
        event = space_event(is_short=is_short, has_obstacles=has_obstacles, has_work=has_work)
        reached = _REACHED[event]
        is_new = reached is not self.state
        if is_new:
            self._machine.take(event)
        if reached is SpaceState.ENOUGH:
            if is_new:
                _LOG.info("space recovered", bookie=self._bookie, free_bytes=free_bytes)
        elif reached is SpaceState.BLOCKED:
            self._log_blocked(free_bytes)
        elif reached is SpaceState.EXHAUSTED and is_new:
            _LOG.error(
                "space exhausted",
                machine=self._machine,
                bookie=self._bookie,
                free_bytes=free_bytes,
            )

    def _log_blocked(self, free_bytes: int) -> None:
        obstacles = [f"{work}: {reason}" for work, reason in self.obstacles.items()]
        now, kinds = asyncio.get_running_loop().time(), " ".join(self.obstacles)
        if self._log_limit.admit(now, kinds) is not None:
            _LOG.error(
                "space recovery blocked",
                machine=self._machine,
                bookie=self._bookie,
                free_bytes=free_bytes,
                obstacles=obstacles,
            )
