"""Judges a played scenario: invariants, lost and duplicated records, expectations."""

from collections.abc import Iterator

from ....client.units import show_ms
from ....core.protocol.dlsn import Dlsn
from ...checker.history import AppendOutcome
from ...checker.judge import judge
from ...checker.run_record import INVARIANTS
from ..played_scenario import PlayedScenario
from ..scenario import APPEND, DELIVER, EVERYWHERE, WAN
from .scenario_outcome import ExpectationResult, Invariant, ScenarioOutcome, ServiceLevel
from .service_levels import levels_of, series_of, slice_ms_of

UNOBSERVABLE_IN_WAN = (
    *("L9", "L10", "L12", "L13", "L14", "L16", "L18", "L19", "L20", "V1"),
    *("G6", "G11", "G12", "G13", "G14", "G15", "G16", "G18"),
)
"""Invariants about bookies' responses on the wire, the evidence of recoveries, and workloads that
only simulated applications run. Only the simulator observes them."""

_LINES_MAX = 400


def outcome_of(play: PlayedScenario) -> ScenarioOutcome:
    """Judge a played scenario."""
    scenario = play.scenario
    outcome = ScenarioOutcome(
        scenario.name,
        scenario.title,
        scenario.about,
        play.world,
        play.seed,
        wan=play.wan,
        lasted_ms=play.load_ends_ms,
        real_s=play.real_s,
        digest=play.digest,
        broke=play.broke,
        resume_ms=play.resume_ms(),
        whole_ms=play.whole_ms,
        slice_ms=slice_ms_of(play),
        bands=play.bands,
        lines=play.lines[-_LINES_MAX:],
    )
    appends = play.history.appends.values()
    outcome.acked = sum(append.outcome is AppendOutcome.OK for append in appends)
    outcome.failed = sum(append.outcome is AppendOutcome.FAILED for append in appends)
    outcome.unknown = sum(append.outcome is AppendOutcome.UNKNOWN for append in appends)
    outcome.lost, outcome.doubled = _lost_and_doubled(play)
    outcome.delivered = sum(len(read.records) for read in play.history.reads)
    outcome.invariants = _invariants(play)
    outcome.levels = levels_of(play)
    outcome.series = series_of(play)
    outcome.checks = list(_checks(play, outcome))
    return outcome


def _invariants(play: PlayedScenario) -> list[Invariant]:
    record = play.record
    broken: dict[str, list[str]] = {}
    if record is not None:
        for violation in judge(record):
            broken.setdefault(violation.id, []).append(violation.text)
    unobservable = UNOBSERVABLE_IN_WAN if play.world == WAN else ()
    return [
        Invariant(
            name,
            " ".join((check.__doc__ or "").split()),
            record is not None and name not in unobservable,
            tuple(broken.get(name, ())),
        )
        for name, check in INVARIANTS.items()
    ]


def _lost_and_doubled(play: PlayedScenario) -> tuple[int, int]:
    """Return the numbers of acknowledged records that were lost and that were delivered twice.

    Each is the maximum over all readers that read the whole stream.
    """
    complete = [read for read in play.history.reads if read.is_complete]
    if not complete:
        return 0, 0
    first = play.truncated_before
    wanted = [
        append
        for append in play.history.appends_with_outcome(AppendOutcome.OK)
        if first is None or append.dlsn is None or append.dlsn >= first
    ]
    lost = doubled = 0
    for read in complete:
        positions: dict[bytes, set[Dlsn]] = {}
        for record in read.records:
            positions.setdefault(record.payload, set()).add(record.dlsn)
        lost = max(lost, sum(append.payload not in positions for append in wanted))
        doubled = max(doubled, sum(len(found) > 1 for found in positions.values()))
    return lost, doubled


def _checks(play: PlayedScenario, outcome: ScenarioOutcome) -> Iterator[ExpectationResult]:
    expect = play.scenario.expect
    yield _at_most("lost acknowledged records", outcome.lost, expect.lost)
    yield _at_most("records delivered at two positions", outcome.doubled, expect.doubled)
    yield ExpectationResult(
        "acknowledged records",
        f"at least {expect.acked_min}",
        str(outcome.acked),
        outcome.acked >= expect.acked_min,
    )
    yield _within(
        "time until appends resumed after the last fault", outcome.resume_ms, expect.resume_ms_max
    )
    if expect.whole_ms_max:
        text = f"time until all copies existed in {expect.whole_regions} regions"
        yield _within(text, play.whole_ms, expect.whole_ms_max)
    if expect.archived_min:
        archived, least = play.archived or 0, expect.archived_min
        yield ExpectationResult(
            "archived segments", f"at least {least}", str(archived), archived >= least
        )
    if play.archived is not None:
        found = play.archive_faults[0] if play.archive_faults else "equal"
        yield ExpectationResult(
            "archive compared with delivered records", "equal", found, not play.archive_faults
        )
    if play.query_faults is not None:
        found = play.query_faults[0] if play.query_faults else "equal"
        text = "Spark query compared with delivered records"
        yield ExpectationResult(text, "equal", found, not play.query_faults)
    behind = [name for name, got_all in play.caught_up.items() if not got_all]
    if play.caught_up:
        found = f"{len(behind)} of {len(play.caught_up)} missed records"
        yield ExpectationResult(
            "catch-up readers that received all records",
            "all",
            found if behind else "all",
            not behind,
        )
    for limit in [limit for limit in expect.unavailable if limit.world in ("", play.world)]:
        for level in _levels(outcome, limit.operation, limit.region):
            where = "anywhere" if level.region == EVERYWHERE else f"in {level.region}"
            event = {APPEND: "an append", DELIVER: "a delivery"}[level.operation]
            text = f"longest time without {event} {where}"
            yield _within(text, level.unavailable_ms, limit.ms_max)


def _levels(outcome: ScenarioOutcome, operation: str, region: str) -> list[ServiceLevel]:
    matching = [level for level in outcome.levels if level.operation == operation]
    exact = [level for level in matching if level.region == region]
    return matching if region == EVERYWHERE and not exact else exact


def _at_most(text: str, found: int, bound: int) -> ExpectationResult:
    return ExpectationResult(text, f"at most {bound:,}", f"{found:,}", found <= bound)


def _within(text: str, found_ms: float | None, bound_ms: float) -> ExpectationResult:
    wanted = f"at most {show_ms(bound_ms)}"
    if found_ms is None:
        return ExpectationResult(text, wanted, "never", held=False)
    return ExpectationResult(text, wanted, show_ms(found_ms), found_ms <= bound_ms)
