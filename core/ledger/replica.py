"""One index of a writer's ensemble: the bookie that holds it, and the state of that bookie."""

from ..protocol.bookie_id import BookieId, Region
from ..protocol.errors import RhumblineError


class Replica:
    """A bookie at one index of one writer's ensemble.

    If the bookie is replaced, its successor at the same index is another ``Replica``. A failed
    replica receives one entry at a time as a probe. Once it stores a probe, it counts as healthy
    and receives all unconfirmed entries.
    """

    __slots__ = (
        "bit",
        "bookie",
        "error",
        "failed_since",
        "has_old_copy",
        "has_probe",
        "index",
        "lag_bytes",
        "last_entry_id",
        "overdue_from",
        "region",
    )

    def __init__(self, index: int, bookie: BookieId, region: Region | None) -> None:
        self.index = index
        self.bit = 1 << index
        self.bookie = bookie
        self.region = region
        self.last_entry_id: int | None = None  # once replaced: the last entry of its fragment
        self.lag_bytes = 0  # confirmed entries that were sent to it and that it has not answered
        self.failed_since: float | None = None  # loop time
        self.overdue_from = 0.0  # loop time from which ``underreplicated_ms_max`` is counted
        self.error: RhumblineError | None = None
        self.has_old_copy = False  # of the metadata, with a higher R: it must not be counted
        self.has_probe = False  # a probe was sent and has not been answered
