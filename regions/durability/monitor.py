"""Keeps the durability report of one metadata store up to date, in the process that audits it.

The audit notes every ledger that it reads, so the index of layouts costs no reads of its own. The
report is computed again after each audit, soon after a bookie changed, and every few seconds.
Outdated knowledge is never reported: without a recent complete audit and recent registrations the
durability is unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import RhumblineError
from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.runtime.metadata_store import Version
from ...core.runtime.primitives.wakeup import Wakeup
from ..steered_directory import SteeredDirectory
from .cluster_survey import read_cluster
from .copy_states import ClusterCopies
from .judgement import CopyVerdict
from .ledger_index import LayoutGroup, LedgerIndex
from .report import DurabilityReport, Judge, Tally

_SLICE = 100
"""Groups that are judged before other tasks of the event loop run."""

_SETTLE_S = 0.2
"""Delay after a bookie changed, because others may follow."""


class DurabilityMonitor:
    """The report and what it is computed from. ``run`` belongs to a task of the owner."""

    def __init__(
        self, directory: SteeredDirectory, *, interval_ms: int, stale_after_ms: int
    ) -> None:
        """``stale_after_ms``: age of the ledgers or registrations at which nothing is known."""
        self.report: DurabilityReport | None = None
        """The last report; see ``is_known``."""
        self.by_region: dict[str, DurabilityReport] = {}
        """The reports for the loss of each region."""
        self._directory = directory
        self._interval_s = interval_ms / 1000
        self._stale_after_s = stale_after_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._wakeup = Wakeup()
        self._lock = asyncio.Lock()
        self._index = LedgerIndex()
        self._scan_began_at = 0.0
        self._scanned_at: float | None = None
        self._read_at = 0.0
        self._judge: Judge | None = None
        self._judges: dict[str, Judge] = {}
        self._counted = -1  # the changes of the index that the report includes

    # --- the audit's part -----------------------------------------------------------------------

    def begin_scan(self) -> None:
        """An audit begins to read all ledgers."""
        self._scan_began_at = self._loop.time()
        self._index.begin_scan()

    def note(self, metadata: LedgerMetadata, version: Version) -> None:
        """Count a ledger as the audit has read it."""
        self._index.note(metadata, version)

    def end_scan(self, unreadable: int) -> None:
        """The audit has read all ledgers, of which some have damaged metadata."""
        self._index.end_scan(unreadable)
        self._scanned_at = self._scan_began_at

    def forget(self) -> None:
        """Drop everything, because another process audits."""
        self._index = LedgerIndex()
        self._scanned_at = None
        self.report = None
        self.by_region = {}
        self._judge = None
        self._judges = {}
        self._counted = -1

    @property
    def group_count(self) -> int:
        """The number of different layouts."""
        return len(self._index.groups())

    # --- the report -----------------------------------------------------------------------------

    @property
    def age_s(self) -> float | None:
        """Seconds since the ledgers, or the bookies, were read; None without a complete scan."""
        if self.report is None or self._scanned_at is None:
            return None
        return self._loop.time() - min(self._scanned_at, self._read_at)

    @property
    def is_known(self) -> bool:
        """True if the report is recent enough to rely on."""
        age = self.age_s
        return age is not None and age <= self._stale_after_s

    async def run(
        self,
        is_auditor: Callable[[], bool],
        given_up: Callable[[], Awaitable[Collection[BookieId]]],
    ) -> None:
        """Keep the report up to date while ``is_auditor``. ``given_up`` reads what repair counts as
        lost."""
        watches = [
            self._directory.watch(self._wakeup.wake),
            self._directory.states.watch(self._wakeup.wake),
        ]
        try:
            while True:
                if await self._wakeup.wait(self._interval_s):
                    await asyncio.sleep(_SETTLE_S)
                if not is_auditor() or not self._index.is_complete:
                    continue
                try:
                    await self.refresh(await given_up())
                except RhumblineError:
                    continue  # the report ages, and is then unknown
        finally:
            for watch in watches:
                watch.close()

    async def refresh(self, given_up: Collection[BookieId]) -> None:
        """Read the bookies and compute the report, if all ledgers are known.

        Raises MetadataUnavailableError, CorruptionError.
        """
        async with self._lock:
            index = self._index
            if not index.is_complete:
                return
            began_at = self._loop.time()
            cluster = await read_cluster(self._directory, index.bookies(), given_up=given_up)
            index.mark_lacking(cluster.lacking)
            is_same = self._judge is not None and not cluster.changed_since(self._judge.cluster)
            if is_same and self._counted == index.changes and self.report is not None:
                self._read_at = began_at
                self.report.ledgers_unreadable = index.unreadable
                return
            counted, groups = index.changes, index.groups()
            self._judge = _updated(self._judge, cluster, groups)
            report = await self._tally(self._judge, groups)
            report.ledgers_unreadable = index.unreadable
            regions = sorted({str(m.path[0]) for m in cluster.members.values() if m.path[0]})
            judges, by_region = {}, {}
            for region in regions:
                lost = [b for b, member in cluster.members.items() if member.path[0] == region]
                judge = _updated(self._judges.get(region), cluster.without(lost), groups)
                judges[region] = judge
                by_region[region] = await self._tally(judge, groups)
            if index is not self._index:
                return  # forgotten meanwhile
            self._judges, self._read_at, self._counted = judges, began_at, counted
            self.report, self.by_region = report, by_region

    async def _tally(self, judge: Judge, groups: Collection[LayoutGroup]) -> DurabilityReport:
        tally = Tally(judge)
        for number, group in enumerate(groups, 1):
            if group.ledgers:  # the audit may remove it meanwhile
                tally.add(group)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return tally.report

    def statistics(self) -> dict[str, Any]:
        """Return the values for metrics; only ``known`` if the durability is unknown."""
        report = self.report
        if report is None or not self.is_known:
            return {"known": False}
        return {
            "known": True,
            "age": self.age_s,
            "ledgers": {
                verdict.key: {state: counts[verdict] for state, counts in report.ledgers.items()}
                for verdict in CopyVerdict
            },
            "one_failure_from_loss": report.one_failure_from_loss,
            "one_failure_from_blocking": report.one_failure_from_blocking,
            "writes_blocked": report.writes_blocked,
            "streams_at_risk": len(report.streams_at_risk()),
            "bookies": {state.value: number for state, number in report.bookies.items()},
        }

    def region_losses(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the entries and the streams that the loss of each region may lose, by region."""
        if not self.is_known:
            return {}, {}
        return (
            {region: found.entries_that_may_be_lost() for region, found in self.by_region.items()},
            {
                region: len(found.streams_that_may_lose())
                for region, found in self.by_region.items()
            },
        )


def _updated(judge: Judge | None, cluster: ClusterCopies, groups: Collection[LayoutGroup]) -> Judge:
    """Return a judge of the cluster that knows what has not changed since the last report."""
    if judge is None:
        return Judge(cluster)
    judge.update(cluster, groups)
    return judge
