"""The versions of ledgers' and segments' metadata, seen by looking again and again.

A version's time is the last look at which it was not there yet: never later than it was written,
which is what a judgement of acknowledgements by the metadata of their moment needs.
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

LOOK_EVERY_S = 0.1


class MetadataHistory:
    """What was seen of one stream."""

    def __init__(self, cluster: WanCluster, store: MetadataStore) -> None:
        self.ledgers: dict[int, list[LedgerVersion]] = {}
        self.segments: dict[int, list[SegmentVersion]] = {}
        self.looks_failed = 0
        self._streams = cluster.streams(store)
        self._ledger_store = LedgerStore(store)
        self._last_look_ms = 0.0
        self._ticks = 0

    async def keep_looking(self) -> None:
        """Until it is cancelled. A store that is away is asked again."""
        while True:
            try:
                async with asyncio.timeout(5):
                    await self.look()
            except (RhumblineError, TimeoutError):
                self.looks_failed += 1
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Looks once. Raises what the store raises."""
        now_ms = time.monotonic() * 1000
        for lssn in await self._streams.segment_numbers(STREAM):
            seen = self.segments.setdefault(lssn, [])
            stored = await self._streams.segment(STREAM, lssn)
            segment = stored.segment if stored is not None else None
            if segment is not None and (not seen or seen[-1].segment != segment):
                seen.append(SegmentVersion(self._moment(), segment))
                self.ledgers.setdefault(segment.ledger_id, [])
        for ledger_id, versions in self.ledgers.items():
            last = versions[-1].metadata if versions else None
            found = await self._read(ledger_id)
            if not versions or found != last:
                versions.append(LedgerVersion(self._moment(), found))
        self._last_look_ms = now_ms

    async def _read(self, ledger_id: int) -> LedgerMetadata | None:
        try:
            return (await self._ledger_store.read(ledger_id))[0]
        except NoSuchLedgerError:
            return None

    def _moment(self) -> float:
        """Behind the last look; no two are equal."""
        self._ticks += 1
        return self._last_look_ms + self._ticks * 1e-6

    def closed(self) -> list[LedgerMetadata]:
        """The closed ledgers as they are now."""
        last = [versions[-1].metadata for versions in self.ledgers.values() if versions]
        return [one for one in last if one is not None and one.state is LedgerState.CLOSED]

    def now(self) -> list[LedgerMetadata]:
        """Every ledger as it is now."""
        last = [versions[-1].metadata for versions in self.ledgers.values() if versions]
        return [one for one in last if one is not None]
