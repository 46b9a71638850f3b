"""The plan ``data-directories``: data directories of bookies fail under load.

The plan is ``swarm`` with small files, two or three data directories for each bookie, and repair,
but without other faults that destroy data or fail calls of the disk. Directories of as many bookies
as the quorum survives fail while they are written and read, some of them shortly before or after
the bookie is killed. A restarted bookie is told that they are lost. In half of the seeds bookies
fetch nothing themselves, so that only repair restores the copies.

At the end every bookie must hold every entry for which the metadata of closed ledgers names it.
The string "data directories" seeds the generator, so it is part of a seed's identity.
"""

import asyncio
from collections.abc import Container
from dataclasses import replace
from random import Random

from .....core.bookie.config import KIB
from .....core.protocol.ledger_metadata import LedgerMetadata
from ....checker.run_record import Rules
from ...cluster import PORT, Fault, bookie_hosts
from ...entry_probe import read_entries
from ...faults.faults import DAMAGING
from ...seed_run import RESUME_S_MAX, LivenessError, RunPlan, SeedRun
from ...world.sim_world import SimHost
from ..swarm import LASTS_MS, REGIONS, swarm

_FAILING = ("read-error", "sync-error", "write-error")
"""Kinds that may fail data directories too, of more bookies than the quorum survives."""


def data_directories(seed: int) -> RunPlan:
    """Return a plan in which data directories fail."""
    random = Random(f"{seed} data directories")
    plan = swarm(seed)
    settings = plan.settings
    count = random.choice((2, 3))
    hosts = bookie_hosts(REGIONS, plan.bookies_by_region)
    faults = [fault for fault in plan.faults if fault.kind not in {*DAMAGING, *_FAILING}]
    for victim in random.sample(hosts, settings.policy.quorum.ack_quorum - 1):
        for number in random.sample(range(count), random.randint(1, count)):
            faults += _failure(random, victim, number)
    return replace(
        plan,
        seed=f"{seed} data directories",
        settings=replace(
            settings,
            log_file_bytes=random.choice((4 * KIB, 8 * KIB, 32 * KIB)),
            tail_cache_bytes=random.choice((0, 16 * KIB)),
            maintenance_ms=random.choice((100, 500)),
            collect_ms=random.choice((300, 2_000)),
            sealed_logs_kept=random.choice((0, 0, 1)),
            bookies_fetch=random.random() < 0.5,
            data_directories=count,
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        repairs=("east", "west"),
        run=DataDirectoryRun,
    )


def _failure(random: Random, victim: str, number: int) -> list[Fault]:
    at_ms = random.randint(2_000, LASTS_MS)
    found = [Fault("fail-directory", victim, at_ms, 0, number)]
    if random.random() < 0.4:
        kill_ms = at_ms + random.choice((-200, 1, 300, 3_000))
        found.append(Fault("kill", victim, kill_ms, random.choice((50, 800))))
    return found


class DataDirectoryRun(SeedRun):
    """A run that waits at its end until all copies are restored (invariant G54)."""

    async def _finish_workload(self, successor: SimHost) -> None:
        await super()._finish_workload(successor)
        await successor.spawn(self._await_copies(), "wait for the copies")

    async def _await_copies(self) -> None:
        give_up_at = self.world.loop.now + RESUME_S_MAX
        while missing := await self._missing():
            if self.world.loop.now > give_up_at:
                raise LivenessError("G54", f"{missing} is not restored after the faults")
            await asyncio.sleep(1.0)

    async def _missing(self) -> str:
        """Return a copy that cannot be read; empty if all can."""
        ledgers = self._closed_ledgers()
        for host in self.cluster.bookie_hosts:
            bookie = self.cluster.bookie_ids[host.name]
            found = await read_entries((host.name, PORT), bookie, ledgers)
            if found is None:
                return f"{bookie}"
            for metadata in ledgers:
                entry_id = _first_missing(metadata, bookie, found)
                if entry_id is not None:
                    return f"entry {entry_id} of ledger {metadata.ledger_id} on {bookie}"
        return ""


def _first_missing(
    metadata: LedgerMetadata, bookie: str, found: Container[tuple[int, int]]
) -> int | None:
    rules = Rules(metadata)
    for entry_id in range(metadata.last_entry_id + 1):
        is_member = bookie in rules.write_set(entry_id)
        if is_member and (metadata.ledger_id, entry_id) not in found:
            return entry_id
    return None
