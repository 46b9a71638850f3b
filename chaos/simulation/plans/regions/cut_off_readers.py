"""The plan ``cut-off-readers``: streams are read where the metadata store is out of reach.

The metadata store has a member in each region. Regions lose the other members, alone or with all
paths to other regions, while every host opens streams at their start, at the end and behind an end
that it has seen. Elsewhere the streams of the two names are deleted, created again, truncated,
written and ended. What a reader gets must be right although its metadata is old (invariants G12 and
G20).

The string "cut-off" seeds a generator and is part of a seed's identity.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from .....core.protocol.dlsn import Dlsn
from .....core.protocol.errors import EndOfStreamError, RhumblineError
from .....core.protocol.start import LATEST
from ....checker.history import ReportedEnd
from ...cluster import Fault, SimClient, SimCluster
from ...seed_run import RunPlan
from ...workload.stream_actions import take
from ..recreation import Administrators, RecreationRun, recreation
from ..swarm import LASTS_MS, REGIONS

_READ_S = 4.0
_READ_BEHIND_THE_END_S = 9.0


def cut_off_readers(seed: int) -> RunPlan:
    """Return a plan in which regions read while they cannot reach the metadata store."""
    random = Random(f"{seed} cut-off")
    plan = recreation(seed)
    faults = [fault for fault in plan.faults if random.random() < 0.3]
    at_ms = random.randint(500, 3_000)
    while at_ms < LASTS_MS:
        lasts_ms = random.choice((3_000, 6_000, 10_000))
        kind = random.choice(("cut-region", "cut-metadata", "cut-metadata"))
        faults.append(Fault(kind, random.choice(REGIONS), at_ms, lasts_ms))
        at_ms += lasts_ms + random.choice((200, 2_500))
    settings = plan.settings
    policy = replace(settings.policy, roll_bytes=random.choice((200, 1_000, 4_000)))
    return replace(
        plan,
        seed=f"{seed} cut-off",
        topology=replace(plan.topology, metadata_regions=REGIONS),
        settings=replace(
            settings,
            policy=policy,
            reader=replace(settings.reader, unavailable_ms_max=random.choice((500, 3_000))),
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        run=CutOffReadersRun,
    )


class CutOffReaders(Administrators):
    """The actions of ``recreation`` with many reads, and with streams that are ended."""

    kinds: Mapping[str, int] = {
        "create": 4,
        "delete": 3,
        "write": 4,
        "end": 2,
        "read": 6,
        "read_latest": 2,
        "read_behind_the_end": 6,
        "truncate": 1,
        "maintain": 1,
    }

    def __init__(
        self, cluster: SimCluster, now_ms: Callable[[], float], numbers: Iterator[int]
    ) -> None:
        super().__init__(cluster, now_ms, numbers)
        self._ends: dict[str, Dlsn] = {}
        """For each name, the position behind the last end that some host has seen."""

    async def _end(self, client: SimClient, name: str, random: Random) -> None:
        writer = await client.namespace.open_writer(name)
        try:
            await writer.end_stream()
        finally:
            await writer.abort()
        for segment in (await client.namespace.describe(name)).segments:
            if segment.ends_stream:
                self._ends[name] = Dlsn(segment.lssn, segment.last_entry_id + 1, 0)

    async def _read_latest(self, client: SimClient, name: str, random: Random) -> None:
        history = self.histories[name]
        read = history.begin_read(f"reader {len(history.reads)} of {name} at its end", None)
        try:
            reader = await client.namespace.open_reader(name, LATEST)
        except RhumblineError as error:
            history.fail_read(read, error)
            raise
        read.start = reader.position
        async with reader:
            read.ready_ms = self._now_ms()
            try:
                async with asyncio.timeout(_READ_S):
                    while await take(reader, history, read):
                        pass
            except TimeoutError:
                return
            except RhumblineError as error:
                history.fail_read(read, error)
                raise

    async def _read_behind_the_end(self, client: SimClient, name: str, random: Random) -> None:
        """Open a reader where the stream of this name ended once: it may have ended again."""
        position = self._ends.get(name)
        if position is None:
            return
        called_ms = self._now_ms()
        async with await client.namespace.open_reader(name, position) as reader:
            try:
                async with asyncio.timeout(_READ_BEHIND_THE_END_S):
                    while True:
                        await reader.source.fetch()
            except EndOfStreamError:
                self.counts["ends reported"] = self.counts.get("ends reported", 0) + 1
                self.reported_ends.append(
                    ReportedEnd("a reader behind the end", name, called_ms, self._now_ms())
                )
            except TimeoutError:
                return


class CutOffReadersRun(RecreationRun):
    """A run of ``cut-off-readers``."""

    administrators_type = CutOffReaders
