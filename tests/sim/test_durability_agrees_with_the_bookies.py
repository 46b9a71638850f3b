"""The verdicts of the durability report hold for the entries that bookies have on their disks."""

import asyncio
from random import Random

import pytest

from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.cluster_survey import read_cluster
from rhumbline.regions.durability.copy_states import ClusterCopies, CopyState
from rhumbline.regions.durability.judgement import CopyVerdict, judge
from rhumbline.regions.durability.ledger_layout import layout_of
from rhumbline.regions.ledger_scan import all_ledgers
from rhumbline.regions.repair.entry_ranges import settled_ranges
from rhumbline.tests.support.simulation.region_run import RegionRun, has_copy, plan, run_script

EXPIRED_S = 30.0
"""Longer than any session of a bookie that was killed."""

KILLED = (1, 2, 4)
"""The number of the six bookies that are down at once, round by round."""


class Survey:
    """The ledgers and the states of the bookies, as an operator's command reads them."""

    def __init__(self) -> None:
        self.ledgers: list[LedgerMetadata] = []
        self.cluster = ClusterCopies({})

    async def read(self, run: RegionRun) -> None:
        async def ask(host: object) -> None:
            async with run.cluster.client(run.operator) as client:
                ledgers = LedgerStore(client.store)
                self.ledgers = [metadata async for metadata, _ in all_ledgers(ledgers)]
                named = [bookie for metadata in self.ledgers for bookie in metadata.bookies()]
                self.cluster = await read_cluster(client.directory, named)

        await run.as_operator(ask)


def running(run: RegionRun) -> dict[BookieId, object]:
    """Return the storage of each bookie whose process runs."""
    return {
        run.cluster.bookies[host.name].bookie_id: run.cluster.bookies[host.name].storage
        for host in run.cluster.bookie_hosts
        if host.is_running and host.name in run.cluster.bookies
    }


def fewest_copies(metadata: LedgerMetadata, storages: dict[BookieId, object]) -> int | None:
    """Return the live copies of the settled entry that has the fewest; None without entries."""
    counts = [
        sum(
            has_copy(storages.get(span.fragment.bookies[index]), metadata.ledger_id, entry_id)
            for index in span.quorum.write_set(entry_id)
        )
        for span in settled_ranges(metadata)
        for entry_id in range(span.first, span.last + 1)
    ]
    return min(counts, default=None)


@pytest.mark.parametrize(("number", "quorum"), [(1, Quorum(3, 3, 2, 2)), (2, Quorum(6, 3, 2, 2))])
def test_verdicts_hold_for_the_entries_on_the_disks(number: int, quorum: Quorum) -> None:
    seen = dict.fromkeys(CopyVerdict, 0)
    random = Random(number)

    async def script(run: RegionRun) -> None:
        hosts: list[SimHost] = list(run.cluster.bookie_hosts)
        for count in KILLED:
            await run.acks(20, 120)
            failed = random.sample(hosts, count)
            for host in failed:
                host.kill("the script kills it")
            await asyncio.sleep(EXPIRED_S)
            survey = Survey()
            await survey.read(run)
            compare(run, survey)
            for host in failed:
                host.start()
            await asyncio.sleep(EXPIRED_S)

    def compare(run: RegionRun, survey: Survey) -> None:
        storages = running(run)
        live = [b for b, member in survey.cluster.members.items() if member.state.is_live]
        assert set(live) == set(storages)
        down = [m for m in survey.cluster.members.values() if m.state is CopyState.DOWN]
        assert len(down) == len(run.cluster.bookie_hosts) - len(live)
        for metadata in survey.ledgers:
            found = judge(layout_of(metadata)[0], survey.cluster)
            copies = fewest_copies(metadata, storages)
            seen[found.worst] += 1
            if copies is None:
                continue
            where = f"ledger {metadata.ledger_id}: {found.worst.name}, {copies} copies"
            if not found.worst.may_lose:
                assert copies >= 1, where
            if metadata.state is LedgerState.CLOSED and found.worst >= CopyVerdict.UNAVAILABLE:
                assert copies == 0, where

    run_script(
        script,
        plan(f"durability {number}", quorum=quorum, roll_ms=10_000, pause_ms=500),
        repairs=False,
    )
    print(seen)
    assert seen[CopyVerdict.REDUCED] and seen[CopyVerdict.DOUBTFUL]
