"""Decides which load reports are recent enough to be used (rule PRX-30).

A report is believed while its proxy is registered and renews it. Whether it was renewed is judged
by the version of its node and by the clock of the process that reads it, so that the clocks of the
proxies do not matter.
"""

from collections.abc import Collection, Sequence

from ...core.runtime.metadata_store import Version
from .assignment_store import StoredReport
from .load_report import LoadReport


class BelievedReports:
    """The reports of a region as one process sees them over time."""

    def __init__(self, stale_s: float) -> None:
        """``stale_s``: time without a new version after which a report is not believed."""
        self._stale_s = stale_s
        self._seen: dict[str, tuple[Version, float]] = {}

    def forget(self) -> None:
        """Forget all versions, after a time without updates."""
        self._seen = {}

    def update(
        self, found: Sequence[StoredReport], members: Collection[str], now: float
    ) -> list[LoadReport]:
        """Return the reports that are believed.

        ``members`` are the ids of the registered proxies, ``now`` the time of the loop.
        """
        seen: dict[str, tuple[Version, float]] = {}
        believed = []
        for report, version in found:
            known = self._seen.get(report.member_id)
            first_seen = known[1] if known is not None and known[0] == version else now
            seen[report.member_id] = version, first_seen
            if report.member_id in members and now - first_seen < self._stale_s:
                believed.append(report)
        self._seen = seen
        return believed
