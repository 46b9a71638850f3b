"""Which replica to ask first, and when to ask another one as well."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Protocol

from ...protocol.bookie_id import BookieId, Region
from ..config import LedgerConfig


class ReadKind(Enum):
    """What is asked for: entries, which a bookie has or has not, or news, which may come late."""

    ENTRY = "entry"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """A replica that could be asked. ``has_failed``: lately, so it should sink in the order."""

    index: int
    bookie: BookieId
    region: str | None
    has_failed: bool


class ReadPolicy(Protocol):
    """Decides about reads and hears how they went. Plain calls: reads are a hot path."""

    def order(self, choices: Sequence[ReplicaChoice]) -> Sequence[ReplicaChoice]:
        """The replicas in the order in which to ask them."""
        ...

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, asked: int) -> float:
        """How long ``choice``, the ``asked``-th that was asked, may stay silent until another one
        is asked as well; 0: for ever."""
        ...

    def may_ask_more(self, kind: ReadKind) -> bool:
        """Whether one more request may be made for a question that is out already; it then is."""
        ...

    def on_answer(self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, asked: int) -> None:
        """``choice`` was the first to answer; ``asked`` replicas had been asked by then."""
        ...

    def on_failure(self, choice: ReplicaChoice) -> None:
        """``choice`` could not be asked, or its answer was that it is not available."""
        ...

    def on_outrun(self, choice: ReplicaChoice) -> None:
        """A replica that was asked later than ``choice`` has answered, and this one has not."""
        ...


class NearestFirst:
    """Healthy ones of our region, then other healthy ones, then the failed; random among equals.

    The next one is asked after a fixed silence. ``on_slow`` is told of bookies that were outrun.
    """

    def __init__(
        self,
        own: Region | None,
        random: Random,
        config: LedgerConfig,
        on_slow: Callable[[BookieId], None],
    ) -> None:
        self._own = own
        self._random = random
        self._on_slow = on_slow
        self._silence_ms = {
            ReadKind.ENTRY: config.speculative_read_ms,
            ReadKind.POLL: config.poll_speculative_ms,
        }

    def order(self, choices: Sequence[ReplicaChoice]) -> list[ReplicaChoice]:
        """See ReadPolicy."""
        own = self._own
        shuffled = list(choices)
        self._random.shuffle(shuffled)
        return sorted(
            shuffled,
            key=lambda choice: (choice.has_failed, own is None or choice.region != own),
        )

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, asked: int) -> float:
        """See ReadPolicy."""
        return self._silence_ms[kind]

    def may_ask_more(self, kind: ReadKind) -> bool:
        """See ReadPolicy."""
        return True

    def on_answer(self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, asked: int) -> None:
        """See ReadPolicy."""

    def on_failure(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy. The pool remembers failures."""

    def on_outrun(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy."""
        self._on_slow(choice.bookie)
