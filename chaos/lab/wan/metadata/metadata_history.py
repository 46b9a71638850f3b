"""Records the versions of the metadata of ledgers and segments by polling.

The time of a version is the last poll that did not yet see it. It is never later than the write of
the version, as the checker requires when it judges an acknowledgement by the metadata of that time.
"""

import asyncio
import time

from .....core.metadata.ledger_store import LedgerStore
from .....core.protocol.errors import NoSuchLedgerError, RhumblineError
from .....core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from .....core.runtime.metadata_store import MetadataStore
from ....checker.run_record import LedgerVersion, SegmentVersion
from ..cluster import WanCluster
from ..programs.app import STREAM

POLL_S = 0.1


class MetadataHistory:
    """The metadata versions of one stream that polling has seen."""

    def __init__(self, cluster: WanCluster, store: MetadataStore) -> None:
        self.ledgers: dict[int, list[LedgerVersion]] = {}
        self.segments: dict[int, list[SegmentVersion]] = {}
        self.polls_failed = 0
        self._streams = cluster.streams(store)
        self._ledger_store = LedgerStore(store)
        self._last_poll_ms = 0.0
        self._ticks = 0

    async def poll_forever(self) -> None:
        """Poll until cancelled; a failed poll is counted and retried."""
        while True:
            try:
                async with asyncio.timeout(5):
                    await self.poll()
            except (RhumblineError, TimeoutError):
                self.polls_failed += 1
            await asyncio.sleep(POLL_S)

    async def poll(self) -> None:
        """Poll once. Raises the errors of the store."""
        now_ms = time.monotonic() * 1000
        stream_id = (await self._streams.head(STREAM))[0].stream_id
        for lssn in await self._streams.segment_numbers(STREAM):
            known = self.segments.setdefault(lssn, [])
            stored = await self._streams.segment(STREAM, lssn, stream_id)
            segment = stored.segment if stored is not None else None
            if segment is not None and (not known or known[-1].segment != segment):
                known.append(SegmentVersion(self._version_time_ms(), segment))
                self.ledgers.setdefault(segment.ledger_id, [])
        for ledger_id, versions in self.ledgers.items():
            last = versions[-1].metadata if versions else None
            current = await self._read(ledger_id)
            if not versions or current != last:
                versions.append(LedgerVersion(self._version_time_ms(), current))
        self._last_poll_ms = now_ms

    async def _read(self, ledger_id: int) -> LedgerMetadata | None:
        try:
            return (await self._ledger_store.read(ledger_id))[0]
        except NoSuchLedgerError:
            return None

    def _version_time_ms(self) -> float:
        """Return a distinct time just after the last poll."""
        self._ticks += 1
        return self._last_poll_ms + self._ticks * 1e-6

    def closed(self) -> list[LedgerMetadata]:
        """Return the latest metadata of all closed ledgers."""
        last = [versions[-1].metadata for versions in self.ledgers.values() if versions]
        return [
            metadata
            for metadata in last
            if metadata is not None and metadata.state is LedgerState.CLOSED
        ]

    def now(self) -> list[LedgerMetadata]:
        """Return the latest metadata of all ledgers."""
        last = [versions[-1].metadata for versions in self.ledgers.values() if versions]
        return [metadata for metadata in last if metadata is not None]
