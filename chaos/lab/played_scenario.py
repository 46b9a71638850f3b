"""The raw result of a played scenario, which both worlds produce for judgement and report."""

from dataclasses import dataclass, field

from ...core.protocol.dlsn import Dlsn
from ..checker.history import AppendOutcome, History, RecordedAppend
from ..checker.run_record import RunRecord
from .report.scenario_outcome import Band
from .scenario import Scenario


@dataclass(slots=True)
class PlayedScenario:
    """One played scenario.

    Times are milliseconds since the start of the workload; ``start_ms`` is that start on the clock
    of ``history``.
    """

    scenario: Scenario
    world: str
    seed: int
    history: History
    regions: dict[int, str] = field(default_factory=dict)
    """Region by writer session."""
    start_ms: float = 0.0
    load_ends_ms: float = 0.0
    """The end of the load; later appends only write the end of the stream."""
    bands: list[Band] = field(default_factory=list)
    record: RunRecord | None = None
    truncated_before: Dlsn | None = None
    """The first position that is not truncated; None: nothing was truncated."""
    caught_up: dict[str, bool] = field(default_factory=dict)
    """By finished catch-up reader: True if it received everything that was acknowledged when it
    started."""
    archived: int | None = None
    """Number of archived segments; None: there is no archive."""
    archive_faults: list[str] = field(default_factory=list)
    query_faults: list[str] | None = None
    """Differences between a Spark query and the readers' records; None: no query was run."""
    whole_ms: float | None = None
    """Time from the end of the last fault until all copies existed; None: copies were missing."""
    broke: str = ""
    """The error that ended the run early; empty: none."""
    digest: str = ""
    """The fingerprint of a simulated run."""
    wan: str = ""
    """A description of how the wide-area network was emulated."""
    real_s: float = 0.0
    lines: list[str] = field(default_factory=list)
    """The log of the run."""

    def load_appends(self) -> list[RecordedAppend]:
        """Return the appends of the load in call order, without those that wrote the end."""
        limit_ms = self.start_ms + self.load_ends_ms
        appends = self.history.appends.values()
        return sorted(
            (append for append in appends if append.called_ms <= limit_ms),
            key=lambda append: (append.called_ms, append.token),
        )

    def resume_ms(self) -> float | None:
        """Return the time from the end of the last fault until appends resumed; None: they did not.

        Appends resume with the first acknowledgement of an append that was called after the fault.
        """
        faults_end_ms = self.start_ms + self.scenario.faults_end_ms
        acked = [
            append.ended_ms
            for append in self.load_appends()
            if append.outcome is AppendOutcome.OK
            and append.called_ms >= faults_end_ms
            and append.ended_ms is not None
        ]
        return min(acked) - faults_end_ms if acked else None
