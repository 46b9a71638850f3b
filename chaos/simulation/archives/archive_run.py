"""A run in which three processes archive the segments of the main stream at the same time.

None of them has claimed the stream: claims only avoid duplicate work, and the archive must be right
without them (rule STR-22).
"""

import asyncio

from ....coldstore.archive.catalog import list_manifests
from ....coldstore.archive.segment_archiver import SegmentArchiver
from ....coldstore.config import ArchiveConfig
from ....core.log.metadata.stream_store import StreamStore
from ....core.protocol.errors import RhumblineError
from ....core.protocol.segments import FIRST_LSSN, Residence
from ...checker.applications.archive_use import ArchiveUse
from ...checker.run_record import RunRecord
from ...lab.cold_store import compare_archive
from ..cluster import NAMESPACE, STREAM, until
from ..seed_run import RESUME_S_MAX, LivenessError, RunPlan, RunResult, SeedRun
from ..world.sim_world import SimHost, SimWorld
from .sim_cold_store import SimColdStore

ARCHIVERS = ("archiver-0", "archiver-1", "archiver-2")
_RETRY_S = 0.2
_SMALL_PARTS = ArchiveConfig(row_group_bytes=500, part_bytes=1_000)


class ArchiveRun(SeedRun):
    """A run of the plan ``archives``, with three archivers of one stream."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.cold = SimColdStore(world.random_of("cold store"), self.history.now_ms)
        self._use = ArchiveUse()
        regions = world.topology.regions
        self._archivers = [
            world.host(name, regions[index % len(regions)]) for index, name in enumerate(ARCHIVERS)
        ]

    async def play(self) -> None:
        """Start the archivers, and run all phases."""
        for host in self._archivers:
            host.start(self._archive)
        await super().play()

    async def _archive(self, host: SimHost) -> None:
        random = self.world.random_of(f"{host.name} {host.starts}")
        lssn = FIRST_LSSN
        async with self.cluster.client(host) as client:
            streams = StreamStore(client.store, NAMESPACE)
            archiver = SegmentArchiver(
                host.runtime(), self.cold, client.ledgers, streams, config=_SMALL_PARTS
            )
            while True:
                try:
                    await archiver.archive(STREAM, lssn)
                except RhumblineError:
                    await asyncio.sleep(_RETRY_S * (1 + random.random()))
                else:
                    lssn += 1

    async def _finish_workload(self, successor: SimHost) -> None:
        self.cold.is_lossy = False
        try:
            async with asyncio.timeout(RESUME_S_MAX):
                await until(lambda: not self._waiting())
        except TimeoutError as error:
            raise LivenessError(
                "G56", f"segments {self._waiting()} are completed and not archived"
            ) from error
        for host in self._archivers:
            host.kill("is done")
        read = next(read for read in self.history.reads if read.is_complete)
        try:
            _, self._use.differences = await compare_archive(self.cold, NAMESPACE, read)
        except RhumblineError as error:
            self._use.differences = [f"the archive cannot be read: {error}"]

    def _waiting(self) -> list[int]:
        """Return the completed segments whose metadata does not call them archived."""
        return [
            lssn
            for lssn, segment in self._segments().items()
            if segment.is_completed and segment.residence is Residence.HOT
        ]

    async def _verify_end_state(self) -> None:
        await super()._verify_end_state()
        await self._find_periods()

    async def _find_periods(self) -> None:
        """Find when the manifest and all parts of each segment existed."""
        for manifest in await list_manifests(self.cold, NAMESPACE):
            keys = {manifest.key, *(manifest.part_key(part) for part in manifest.parts)}
            present: set[str] = set()
            periods = self._use.complete.setdefault(manifest.lssn, [])
            for change in self.cold.changes:
                if change.key not in keys:
                    continue
                if change.exists:
                    present.add(change.key)
                    if present == keys:
                        periods.append((change.at_ms, float("inf")))
                else:
                    if present == keys:
                        periods[-1] = (periods[-1][0], change.at_ms)
                    present.discard(change.key)

    def record(self) -> RunRecord:
        """See SeedRun."""
        record = super().record()
        for lssn, versions in record.segments.items():
            for version in versions:
                segment = version.segment
                if segment is not None and segment.residence is not Residence.HOT:
                    self._use.recorded.setdefault(lssn, version.at_ms)
        record.archives = self._use
        return record

    def fill_result(self, result: RunResult) -> None:
        """See SeedRun."""
        super().fill_result(result)
        result.states["segments archived"] = len(self._use.recorded)
        result.states["parts deleted"] = sum(not change.exists for change in self.cold.changes)
