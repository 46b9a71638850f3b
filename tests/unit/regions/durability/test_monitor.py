"""The auditing process follows bookies and ledgers, and reports nothing that is old."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from rhumbline.backends.memory import MemorySession, MemoryStore
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId, Region, check_bookie_id
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.metrics import samples
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.registration import Registration
from rhumbline.regions.durability.judgement import CopyVerdict
from rhumbline.regions.durability.monitor import DurabilityMonitor
from rhumbline.regions.durability.report import OPEN
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

BOOKIES = tuple(check_bookie_id(f"{region}@00000001") for region in ("bonn", "oslo", "rome"))
LEDGER = LedgerMetadata(
    1, 3, 3, 2, (Fragment(0, BOOKIES),),
    custom={"rhumbline.namespace": b"main", "rhumbline.stream": b"orders"},
).with_r(0, 2)  # fmt: skip


class CutOffStore(MemoryStore):
    is_cut_off = False

    async def children(self, path: str, **options: object) -> list[str]:
        if self.is_cut_off:
            raise MetadataUnavailableError("cut off")
        return await super().children(path)


class World:
    """Three bookies in three regions, and one open ledger on them."""

    def __init__(self) -> None:
        self.store = CutOffStore()
        self.directory = SteeredDirectory(self.store)
        self.sessions: dict[BookieId, MemorySession] = {}
        self.monitor = DurabilityMonitor(self.directory, interval_ms=10_000, stale_after_ms=60_000)
        self.is_auditor = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[DurabilityMonitor]:
        await initialise_cluster(self.store, Random(1))
        for bookie in BOOKIES:
            self.sessions[bookie] = session = await self.store.session(1_000_000)
            await self.directory.record_region(bookie, Region(bookie.partition("@")[0]))
            await self.directory.write_cookie(Cookie(bookie, "journal", ("ledgers",), "cluster"))
            await self.directory.register(session, Registration(bookie, "host", 1))
        task = asyncio.create_task(self.monitor.run(lambda: self.is_auditor, self._given_up))
        try:
            yield self.monitor
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            self.directory.close()

    async def _given_up(self) -> list[BookieId]:
        return []

    async def audit(self, *ledgers: LedgerMetadata) -> None:
        self.monitor.begin_scan()
        for metadata in ledgers:
            self.monitor.note(metadata, Version("1"))
        self.monitor.end_scan(0)
        await self.monitor.refresh(())

    def kill(self, bookie: BookieId) -> None:
        self.store.expire_session(self.sessions[bookie])


async def test_a_dead_bookie_changes_the_report_within_a_second_without_an_audit() -> None:
    world = World()
    async with world.running() as monitor:
        await world.audit(LEDGER)
        assert monitor.report is not None
        assert monitor.report.ledgers[OPEN][CopyVerdict.WHOLE] == 1
        assert monitor.region_losses() == (dict.fromkeys(("bonn", "oslo", "rome"), 0),) * 2
        world.kill(BOOKIES[0])
        await asyncio.sleep(1)
        assert monitor.report.ledgers[OPEN][CopyVerdict.REDUCED] == 1
        assert monitor.report.one_failure_from_blocking["bookie"] == 1
        world.kill(BOOKIES[1])
        await asyncio.sleep(1)
        assert monitor.report.ledgers[OPEN][CopyVerdict.DOUBTFUL] == 1
        assert monitor.report.writes_blocked == 1
        assert monitor.report.one_failure_from_loss["bookie"] == {"open": 1, "closed": 0}
        assert monitor.region_losses()[1]["rome"] == 1


async def test_nothing_is_reported_before_a_complete_scan_and_after_the_role_has_ended() -> None:
    world = World()
    async with world.running() as monitor:
        monitor.begin_scan()
        monitor.note(LEDGER, Version("1"))
        await asyncio.sleep(30)
        assert monitor.statistics() == {"known": False}
        assert monitor.region_losses() == ({}, {})
        await world.audit(LEDGER)
        assert monitor.statistics()["known"] is True
        world.is_auditor = False
        monitor.forget()
        await asyncio.sleep(30)
        assert monitor.statistics() == {"known": False}


async def test_old_knowledge_is_unknown() -> None:
    """Neither old registrations nor an old scan of the ledgers make a safe report."""
    world = World()
    async with world.running() as monitor:
        await world.audit(LEDGER)
        world.store.is_cut_off = True
        await asyncio.sleep(30)
        assert monitor.is_known
        assert monitor.age_s == pytest.approx(30, abs=0.1)
        await asyncio.sleep(40)
        assert not monitor.is_known
        assert monitor.statistics() == {"known": False}
        world.store.is_cut_off = False
        await asyncio.sleep(15)
        assert not monitor.is_known, "no audit has read the ledgers meanwhile"
        await world.audit(LEDGER)
        assert monitor.is_known


async def test_every_value_is_a_metric() -> None:
    world = World()
    async with world.running() as monitor:
        await world.audit(LEDGER)
        found = samples("repair", {"durability": monitor.statistics()})
        values = {
            (metric.prometheus_name, *(value for _, value in sample.labels)): sample.value
            for metric, several in found.items()
            for sample in several
        }
        name = "rhumbline_repair_durability"
        assert values[f"{name}_known",] == 1
        assert values[f"{name}_age_seconds",] == 0
        assert values[f"{name}_ledgers", "whole", "open"] == 1
        assert values[f"{name}_ledgers", "lost", "closed"] == 0
        assert values[f"{name}_one_failure_from_loss", "region", "open"] == 0
        assert values[f"{name}_one_failure_from_blocking", "bookie"] == 0
        assert values[f"{name}_writes_blocked",] == values[f"{name}_streams_at_risk",] == 0
        assert values[f"{name}_bookies", "up"] == 3
