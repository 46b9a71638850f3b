"""The default read policy: near replicas first, with a fixed delay until the next one."""

from collections.abc import Callable, Sequence
from random import Random

from ...protocol.bookie_id import BookieId, Region
from ..config import LedgerConfig
from ..read_policy import ReadKind, ReplicaChoice


class NearestFirst:
    """Orders healthy replicas in the local region first, then other healthy ones, then failed ones.

    The order among equals is random. ``on_slow`` is called with bookies that were outrun.
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

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, sent_count: int) -> float:
        """See ReadPolicy."""
        return self._silence_ms[kind]

    def may_send_more(self, kind: ReadKind) -> bool:
        """See ReadPolicy."""
        return True

    def on_response(
        self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, sent_count: int
    ) -> None:
        """See ReadPolicy."""

    def on_failure(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy. The pool records failures."""

    def on_outrun(self, choice: ReplicaChoice) -> None:
        """See ReadPolicy."""
        self._on_slow(choice.bookie)
