"""Decides how long the writer of an open ledger has been inactive (RPR-22). Pure.

No sign of activity ever returns to an earlier value. If two observations are equal, the writer
stored nothing and answered nothing in between, however seldom it is observed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.log.metadata.stream_metadata import StreamHead
from ...core.protocol.bookie_id import BookieId
from ...core.runtime.metadata_store import Version

_WATCHED_MAX = 100_000
"""Maximum number of watched ledgers; beyond it the one that was added first starts anew."""


@dataclass(frozen=True, slots=True)
class WriterSigns:
    """The activity of the writer of an open ledger, as found at one moment."""

    head: StreamHead | None
    """The head of the ledger's stream; None if there is no such stream."""
    ledger_version: Version
    answers: int
    """Number of the writer's answers to the roll request."""
    highest: Mapping[BookieId, int]
    """The highest entry id on each bookie of the last fragment that responded."""


@dataclass(slots=True)
class _Silence:
    """The signs of one writer, and since when (loop time in seconds) there was no new one."""

    since: float
    signs: WriterSigns
    highest: dict[BookieId, int] = field(default_factory=dict)


class WriterWatch:
    """The silence of the writers of all ledgers that one process watches."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_s = grace_ms / 1000
        self._silences: dict[int, _Silence] = {}

    def observe(self, ledger_id: int, signs: WriterSigns, now: float) -> int:
        """Return the ms for which the writer must stay silent until it counts as gone; 0: it does.

        A bookie that responds for the first time may show entries of any age, so the silence begins
        anew. ``now`` is loop time in seconds.
        """
        known = self._silences.get(ledger_id)
        if known is None or self._is_alive(known, signs):
            highest = {**(known.highest if known else {}), **signs.highest}
            self._silences.pop(ledger_id, None)
            if len(self._silences) >= _WATCHED_MAX:
                del self._silences[next(iter(self._silences))]
            known = self._silences[ledger_id] = _Silence(now, signs, highest)
        return max(0, round((self._grace_s - (now - known.since)) * 1000))

    def silent_since(self, ledger_id: int) -> float:
        """Return the loop time in seconds of the first observation without a new sign since."""
        return self._silences[ledger_id].since

    def forget(self, ledger_id: int) -> None:
        """Stop watching the writer of a ledger."""
        self._silences.pop(ledger_id, None)

    @staticmethod
    def _is_alive(known: _Silence, signs: WriterSigns) -> bool:
        before = known.signs
        return (
            signs.head != before.head
            or signs.ledger_version != before.ledger_version
            or signs.answers > before.answers
            or any(
                bookie not in known.highest or last > known.highest[bookie]
                for bookie, last in signs.highest.items()
            )
        )
