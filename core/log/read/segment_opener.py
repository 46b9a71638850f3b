"""Where a segment's bytes are read: its ledger, or the archive once the ledger is gone.

Streams know an archive only by this protocol; ``coldstore`` implements it.
"""

from typing import Protocol

from ...protocol.errors import ConfigurationError, NoSuchLedgerError
from ...protocol.segments import Residence, Segment
from ..ledger_interface import LedgerProvider, ReadableLedger
from ..metadata.stream_store import StreamStore


class Archives(Protocol):
    """The archived segments of one namespace."""

    async def open(self, stream: str, segment: Segment) -> ReadableLedger:
        """Opens an archived segment as if it were its closed ledger.

        Control records come back as empty ones. Raises NoSuchLedgerError when there is no archive,
        CorruptionError when it is not this segment's; both also while it is read.
        """
        ...

    async def check(self, stream: str, segment: Segment) -> None:
        """Returns when the archive is this segment's and all of its files are there.

        Raises CorruptionError, which says what is wrong.
        """
        ...

    async def delete(self, stream: str, segment: Segment) -> None:
        """Deletes the segment's archive for good. A repeat is safe."""
        ...


class SegmentOpener:
    """Opens segments for reading. Which copy it takes, readers need not know."""

    def __init__(
        self, streams: StreamStore, ledgers: LedgerProvider, archives: Archives | None
    ) -> None:
        self._streams = streams
        self._ledgers = ledgers
        self._archives = archives

    async def open(self, stream: str, segment: Segment) -> ReadableLedger:
        """A reader of the segment's entries.

        Raises NoSuchLedgerError when it has no copy, ConfigurationError when its only copy is in an
        archive that this process was not told of.
        """
        if segment.residence is not Residence.ARCHIVE:
            try:
                return await self._ledgers.open(segment.ledger_id)
            except NoSuchLedgerError:
                stored = await self._streams.segment(stream, segment.lssn)
                if stored is None or stored.segment.ledger_id != segment.ledger_id:
                    raise
                if stored.segment.residence is Residence.HOT:
                    raise
                segment = stored.segment  # what we knew was from before its hot copy went
        if self._archives is None:
            raise ConfigurationError(
                f"stream {stream}: segment {segment.lssn} is in the archive only; say where that "
                "is (cold=, [cluster] cold)"
            )
        return await self._archives.open(stream, segment)
