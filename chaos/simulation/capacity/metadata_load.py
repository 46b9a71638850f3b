"""Operations on the metadata store by the production services, counted at a small size.

Creation, audit and repair of ledgers run on a store in memory that counts calls by kind. Bookies
take no part: a stand-in for the ledger client says that every copy is complete, so that what is
counted is the decision of each repair and its record, without the copying.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Any, cast

from ....backends.memory import MemorySession, MemoryStore
from ....core.ledger.client import LedgerClient
from ....core.metadata.cluster_layout import ROOT, initialise_cluster
from ....core.metadata.ledger_store import LedgerStore
from ....core.protocol.bookie_id import BookieId
from ....core.protocol.ledger_metadata import Fragment, LedgerMetadata
from ....core.runtime.metadata_store import Operation, Session, Value, Version
from ....core.runtime.runtime import Runtime
from ....core.wire.availability import Availability, Group
from ....core.wire.cookie import Cookie
from ....core.wire.registration import RACK, Registration
from ....placement.region_aware import RegionAwarePlacement
from ....regions.ledger_scan import all_ledgers
from ....regions.repair.config import RepairConfig
from ....regions.repair.repair_service import RepairService
from ....regions.steered_directory import SteeredDirectory
from .cluster_shape import REGIONS, ClusterShape

_TODO = f"{ROOT}/rhumbline/repair/todo"
_ENTRIES = 1_000
_SETTLE_S_MAX = 60.0
_CONFIG = RepairConfig(lost_after_ms=1, audit_interval_ms=60_000, retry_ms_min=50, retry_ms_max=50)

PROCESSES = (1, 4, 20)
"""The numbers of repair processes for which repairs are counted."""

Counts = dict[str, float]


class CountedStore(MemoryStore):
    """A store in memory that counts operations by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.names_listed = 0

    def taken(self) -> Counter[str]:
        """Return the counts since the last call."""
        counts, self.counts = self.counts, Counter()
        return counts

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        self.counts["get"] += 1
        return await super()._get(path, stale_ok=stale_ok)

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        self.counts["list"] += 1
        names = await super()._children(path, after, limit, stale_ok=stale_ok)
        self.names_listed += len(names)
        return names

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        self.counts["create"] += 1
        return await super()._create(path, data, ephemeral, sequential=sequential)

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        kind = type(operations[0]).__name__.lower() if len(operations) == 1 else "transaction"
        self.counts[kind] += 1
        return await super()._transact(operations)


class _CompleteCopies:
    """A stand-in for the ledger client: each bookie has every entry, and nothing is copied."""

    def __init__(self) -> None:
        self.copies = self

    async def list_entries(self, bookie: BookieId, ledger_id: int) -> Availability:
        del bookie, ledger_id
        return Availability([Group(0, 0, _ENTRIES, 0)])

    def reader(self, metadata: LedgerMetadata, version: Version) -> "_CompleteCopies":
        del metadata, version
        return self

    async def aclose(self) -> None:
        """Close nothing."""


class _FixedClock:
    def wall_ms(self) -> int:
        """Return a constant."""
        return 1_700_000_000_000


class _Cluster:
    def __init__(self, bookies: int) -> None:
        self.store = CountedStore()
        self.random = Random(1)
        self.shape = ClusterShape(bookies=bookies)
        self.infos = self.shape.known_bookies(bookies)
        self.directory = SteeredDirectory(self.store)
        self.ledgers = LedgerStore(self.store)
        self.sessions: dict[BookieId, MemorySession] = {}

    async def begin(self) -> None:
        """Register the bookies."""
        await initialise_cluster(self.store, self.random)
        for info in self.infos:
            assert info.region is not None and info.rack is not None
            session = self.sessions[info.bookie] = await self.store.session(3_600_000)
            await self.directory.record_region(info.bookie, info.region)
            await self.directory.write_cookie(Cookie(info.bookie, "journal", ("ledgers",), "model"))
            registration = Registration(info.bookie, str(info.host), 1, {RACK: info.rack})
            await self.directory.register(session, registration)

    async def create(self, count: int) -> None:
        """Create closed ledgers, with the calls of the ledger client, and one close for each."""
        quorum, policy = self.shape.quorum, RegionAwarePlacement()
        for _ in range(count):
            candidates = await self.directory.snapshot()
            chosen = policy.new_ensemble(quorum, candidates, random=self.random)
            number = await self.ledgers.new_number()
            opened = LedgerMetadata(
                number.ledger_id,
                quorum.ensemble_size,
                quorum.write_quorum,
                quorum.ack_quorum,
                (Fragment(0, chosen),),
                creation_token=self.random.getrandbits(62) + 1,
            ).with_r(0, quorum.min_regions)
            version = await self.ledgers.create(opened, number)
            closed = opened.closed(_ENTRIES - 1, _ENTRIES * 1000)
            await self.ledgers.write(closed, version)

    async def repair(self, processes: int) -> int:
        """Run repair services until no task is left; return the number of audits."""
        services = [
            RepairService(
                Runtime(_FixedClock(), Random(number)),
                self.store,
                cast(LedgerClient, _CompleteCopies()),
                self.directory,
                RegionAwarePlacement(),
                _CONFIG,
            )
            for number in range(processes)
        ]
        async with AsyncExitStack() as running:
            for service in services:
                service.start()
                running.push_async_callback(service.aclose)
            await asyncio.wait_for(self._until_repaired(services), _SETTLE_S_MAX)
            return sum(int(service.statistics()["audits"]) for service in services)

    async def _until_repaired(self, services: Sequence[RepairService]) -> None:
        counts: list[dict[str, Any]] = []
        while not counts or not (
            sum(one["under_replicated"] for one in counts)
            and not self.store.tree.names_after(_TODO, None, 1)
        ):
            await asyncio.sleep(0.05)
            counts = [service.statistics() for service in services]


async def measure_metadata(ledgers: int = 300, bookies: int = 100) -> dict[str, Any]:
    """Return the operations for each created, audited and repaired ledger."""
    cluster = _Cluster(bookies)
    await cluster.begin()
    await cluster.create(1)  # reads what is cached afterwards
    store = cluster.store
    store.taken()
    store.names_listed = 0
    await cluster.create(ledgers)
    found: dict[str, Any] = {
        "ledgers": ledgers,
        "bookies": bookies,
        "created": _each(store.taken(), ledgers),
        "names_listed_by_creation": store.names_listed / ledgers,
    }
    async for _ in all_ledgers(cluster.ledgers):
        pass
    found["audited"] = _each(store.taken(), ledgers + 1)
    gone: set[BookieId] = set()
    found["repaired"] = {}
    for number, processes in enumerate(PROCESSES):
        rack = f"rack-{number}"
        for info in cluster.infos:
            if (info.region, info.rack) == (REGIONS[0], rack):
                cluster.sessions[info.bookie].expire()
                gone.add(info.bookie)
        found["repaired"][str(processes)] = await _measure_repair(cluster, gone, processes)
    cluster.directory.close()
    return found


async def _measure_repair(
    cluster: _Cluster, gone: set[BookieId], processes: int
) -> dict[str, float]:
    """Return the operations per repaired ledger, without the reads of the audits."""
    affected = total = 0
    async for metadata, _ in all_ledgers(cluster.ledgers):
        total += 1
        affected += not gone.isdisjoint(metadata.bookies())
    cluster.store.taken()
    audits = await cluster.repair(processes)
    counts = cluster.store.taken()
    counts["get"] -= audits * total
    return {"ledgers": affected, "audits": audits, **_each(counts, affected)}


def _each(counts: Counter[str], number: int) -> Counts:
    return {kind: round(count / number, 2) for kind, count in sorted(counts.items())}
