"""What both worlds hand over when a scenario was played, for judgement and report."""

from dataclasses import dataclass, field

from ...core.protocol.dlsn import Dlsn
from ..checker.history import AppendOutcome, History, RecordedAppend
from ..checker.run_record import RunRecord
from .report.scenario_outcome import Band
from .scenario import Scenario


@dataclass(slots=True)
class PlayedScenario:
    """One scenario as it was played. Times in ms since the workload began, which was at
    ``start_ms`` of the history's clock."""

    scenario: Scenario
    world: str
    seed: int
    history: History
    regions: dict[int, str] = field(default_factory=dict)
    """Of each writer session."""
    start_ms: float = 0.0
    load_ends_ms: float = 0.0
    """When nobody was told to write any more, but for the end of the stream."""
    bands: list[Band] = field(default_factory=list)
    record: RunRecord | None = None
    truncated_before: Dlsn | None = None
    """The first position that the application still wants; None: all."""
    caught_up: dict[str, bool] = field(default_factory=dict)
    """Of each catch-up reader that came to its end: whether it got all that was acknowledged when
    it began."""
    archived: int | None = None
    """Archived segments; None: there is no archive."""
    archive_faults: list[str] = field(default_factory=list)
    query_faults: list[str] | None = None
    """Where a Spark query differs from what readers got; None: there was none."""
    whole_ms: float | None = None
    """From the last fault until all copies were there; None: they were not."""
    broke: str = ""
    digest: str = ""
    wan: str = ""
    real_s: float = 0.0
    lines: list[str] = field(default_factory=list)

    def in_load(self) -> list[RecordedAppend]:
        """The appends of the workload, without those that wrote the end, in order of calls."""
        limit_ms = self.start_ms + self.load_ends_ms
        appends = self.history.appends.values()
        return sorted(
            (one for one in appends if one.called_ms <= limit_ms),
            key=lambda one: (one.called_ms, one.token),
        )

    def resume_ms(self) -> float | None:
        """From the last fault to the first acknowledgement of an append called after it."""
        calm_ms = self.start_ms + self.scenario.calm_ms
        acked = [
            one.ended_ms
            for one in self.in_load()
            if one.outcome is AppendOutcome.OK
            and one.called_ms >= calm_ms
            and one.ended_ms is not None
        ]
        return min(acked) - calm_ms if acked else None
