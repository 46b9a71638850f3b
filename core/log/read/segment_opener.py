"""Opens segments for reading, from their ledger or from the archive (rule STR-22).

``coldstore`` implements the ``Archives`` protocol; streams know archives only through it.
"""

from collections.abc import Sequence
from typing import Protocol

from ...protocol.errors import ConfigurationError, NoSuchLedgerError
from ...protocol.segments import Residence, Segment
from ..ledger_interface import LedgerProvider, ReadableLedger
from ..metadata.stream_reads import StreamReads


class Archives(Protocol):
    """The archived segments of one namespace."""

    async def open(self, stream: str, segment: Segment) -> ReadableLedger:
        """Open an archived segment like a closed ledger.

        Control records come back empty. Raises NoSuchLedgerError if there is no archive, and
        CorruptionError if it is not the archive of this segment. Reading may raise both as well.
        """
        ...

    async def check(self, stream: str, segment: Segment) -> None:
        """Verify that the archive belongs to the segment and all of its files exist.

        Raises CorruptionError with the reason.
        """
        ...

    async def expire(
        self, stream: str, identity: str, *, below: int, completed_by_ms: int
    ) -> Sequence[int]:
        """Delete archives of the stream with ``identity`` that are old enough, and return LSSNs.

        Those are archives of segments below ``below`` that were completed at ``completed_by_ms`` or
        before. A call deletes a bounded number. Safe to repeat.
        """
        ...


class SegmentOpener:
    """Opens segments for reading and chooses the copy: the ledger or the archive.

    The metadata of ledgers may be old if ``streams`` may be. A missing ledger is confirmed, so the
    segment is then read again as it is now.
    """

    def __init__(
        self, streams: StreamReads, ledgers: LedgerProvider, archives: Archives | None
    ) -> None:
        self._streams = streams
        self._ledgers = ledgers
        self._archives = archives

    async def open(self, stream: str, segment: Segment) -> ReadableLedger:
        """Open the entries of a segment.

        Raises NoSuchLedgerError if the segment has no copy, and ConfigurationError if its only copy
        is in an archive but this process has no archive configured.
        """
        if segment.residence is not Residence.ARCHIVE:
            try:
                return await self._ledgers.open(
                    segment.ledger_id, stale_ok=not self._streams.is_confirmed
                )
            except NoSuchLedgerError:
                stored = await self._streams.confirmed.segment(
                    stream, segment.lssn, segment.stream_id
                )
                if stored is None or stored.segment.ledger_id != segment.ledger_id:
                    raise
                if stored.segment.residence is Residence.HOT:
                    raise
                segment = stored.segment  # its ledger was deleted after ``segment`` was read
        if self._archives is None:
            raise ConfigurationError(
                f"stream {stream}: segment {segment.lssn} is only in the archive; set cold= or "
                "[cluster] cold to the address of the archive"
            )
        return await self._archives.open(stream, segment)
