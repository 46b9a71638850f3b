"""One place in a writer's ensemble: the bookie that sits there now, and how it is doing."""

from ...protocol.bookie_id import BookieId, Region
from ...protocol.errors import RhumblineError
from ..connection.bookie_link import BookieLink
from .add_op import AddOp


class Replica:
    """Belongs to one writer; another bookie at the same index is another ``Replica``.

    A failed replica gets no entries but one probe at a time; when it stores one, it is well again
    and gets everything that is not confirmed yet.
    """

    __slots__ = (
        "bit",
        "error",
        "failed_since",
        "index",
        "lag_bytes",
        "last_entry_id",
        "link",
        "patience_from",
        "probe",
        "region",
    )

    def __init__(self, index: int, link: BookieLink, region: Region | None) -> None:
        self.index = index
        self.bit = 1 << index
        self.link = link
        self.region = region
        self.last_entry_id: int | None = None  # the last that was its, once it was replaced
        self.lag_bytes = 0  # confirmed entries that it was sent and has not answered
        self.failed_since: float | None = None  # loop time
        self.patience_from = 0.0  # loop time from which on it is waited for
        self.error: RhumblineError | None = None
        self.probe: AddOp | None = None  # the one entry that it was sent since it failed

    @property
    def bookie(self) -> BookieId:
        """Who sits here."""
        return self.link.bookie
