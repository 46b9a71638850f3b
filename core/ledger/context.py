"""The state that the parts of a ledger client share."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..metadata.bookie_directory import BookieDirectory
from ..metadata.ledger_store import LedgerStore
from ..protocol.bookie_id import BookieId, Region
from ..protocol.ledger_metadata import Fragment, LedgerMetadata
from ..protocol.placement import BookieInfo, PlacementPolicy, in_regions
from ..protocol.quorum import Quorum, QuorumView
from ..protocol.recovery import Evidence
from ..runtime.histogram import Histogram
from ..runtime.primitives.backoff import Backoff
from ..runtime.runtime import Runtime
from ..runtime.tasks import Tasks
from .config import LedgerConfig
from .connection.bookie_pool import BookiePool
from .connection.path_probes import probe_paths
from .connection.reachability import bookies_to_probe, reachable_first
from .measured_load import shares_percent
from .missing_range import MissingRange
from .read_policy import ReadPolicy
from .slow_departure import SlowDeparture


class LedgerHandle(Protocol):
    """An open reader or writer of a ledger, as the client sees it when it is closed."""

    def abandon(self) -> None:
        """Ends the handle: its pending calls fail."""
        ...


@dataclass(frozen=True, slots=True)
class LedgerContext:
    """The dependencies and shared state of one ``LedgerClient``."""

    runtime: Runtime
    config: LedgerConfig
    ledgers: LedgerStore
    directory: BookieDirectory
    placement: PlacementPolicy
    region: Region | None
    pool: BookiePool
    tasks: Tasks
    reads: ReadPolicy
    on_evidence: Callable[[Evidence], None]
    on_missing_range: Callable[[MissingRange], None]
    on_slow_departure: Callable[[SlowDeparture], None]
    adds: Histogram
    """Milliseconds from pushing an entry to its callback."""
    handles: dict[LedgerHandle, None]

    async def regions_of(self, bookies: Sequence[BookieId]) -> list[Region | None]:
        """Returns the region of each bookie. Raises MetadataUnavailableError.

        Their addresses are read with the same request, because they are needed next.
        """
        await self.directory.locate(bookies)
        return [await self.directory.region_of(bookie) for bookie in bookies]

    async def view_of(self, fragment: Fragment, quorum: Quorum) -> QuorumView:
        """Returns the quorum predicate of a fragment. Raises MetadataUnavailableError."""
        return QuorumView(quorum, await self.regions_of(fragment.bookies))

    async def candidates(self, metadata: LedgerMetadata) -> list[BookieInfo]:
        """Returns writable bookies that may hold the ledger. Raises MetadataUnavailableError."""
        return await self.candidates_in(metadata.allowed_regions())

    async def candidates_in(self, allowed: Collection[str]) -> list[BookieInfo]:
        """Returns the writable bookies of the ``allowed`` regions (all if empty) with shares.

        Raises MetadataUnavailableError.
        """
        candidates = in_regions(await self.directory.snapshot(), allowed)
        now = asyncio.get_running_loop().time()
        shares = shares_percent(self.pool.loads(candidates, now))
        return [
            replace(info, share_percent=shares[info.bookie]) if info.bookie in shares else info
            for info in candidates
        ]

    async def reachable_first(
        self, candidates: Sequence[BookieInfo], *, is_urgent: bool
    ) -> list[Sequence[BookieInfo]]:
        """Returns the candidates for one choice, in the order in which they are tried (PLC-30).

        Unless the choice is urgent, bookies that may be unreachable are asked first, which takes at
        most ``probe_timeout_ms``. Without failures this neither waits nor sends anything.
        """
        if not is_urgent and self.config.probe_timeout_ms:
            doubtful = bookies_to_probe(candidates, self.pool.known_paths())
            if doubtful:
                await probe_paths(self.pool, doubtful, self.config.probe_timeout_ms)
        return reachable_first(candidates, self.pool.known_paths())

    def healthy(self, candidates: Sequence[BookieInfo]) -> list[BookieInfo]:
        """Returns the candidates that did not fail within ``failure_memory_ms``."""
        avoided = dict.fromkeys(self.pool.failed_lately())
        return [info for info in candidates if info.bookie not in avoided]

    def fast(self, candidates: Sequence[BookieInfo]) -> list[BookieInfo]:
        """Returns the healthy candidates that no writer left recently because they were slow."""
        avoided = dict.fromkeys(self.pool.slow_lately())
        return [info for info in self.healthy(candidates) if info.bookie not in avoided]

    def backoff(self, timeout_ms: int | None = None) -> Backoff:
        """Returns new pauses between attempts; without ``timeout_ms`` they have no deadline."""
        config = self.config
        return Backoff(
            self.runtime.random,
            config.backoff_ms_min,
            config.backoff_ms_max,
            timeout_ms=timeout_ms,
        )
