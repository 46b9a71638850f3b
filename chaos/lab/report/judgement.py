"""The judgement of a played scenario: the checker's verdict, what was lost, what was expected."""

from collections.abc import Iterator

from ....core.protocol.dlsn import Dlsn
from ...checker.history import AppendOutcome as Ended
from ...checker.judge import judge
from ...checker.run_record import INVARIANTS
from ..played_scenario import PlayedScenario
from ..scenario import APPEND, DELIVER, EVERYWHERE, WAN
from .scenario_outcome import ExpectationResult, Invariant, ScenarioOutcome, ServiceLevel
from .service_levels import levels_of, series_of, slice_of

UNSEEN_IN_WAN = (
    *("L9", "L10", "L12", "L13", "L14", "L16", "L18", "L19", "L20", "V1"),
    *("G6", "G11", "G12", "G13", "G14", "G15", "G16", "G18"),
)
"""They judge what bookies say on the wire, what a recovery decides on, and what the simulator's
applications alone do; only the simulator overhears it."""

_LINES_MAX = 400


def outcome_of(play: PlayedScenario) -> ScenarioOutcome:
    """Judges a play."""
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
        slice_ms=slice_of(play),
        bands=play.bands,
        lines=play.lines[-_LINES_MAX:],
    )
    appends = play.history.appends.values()
    outcome.acked = sum(one.outcome is Ended.OK for one in appends)
    outcome.failed = sum(one.outcome is Ended.FAILED for one in appends)
    outcome.unknown = sum(one.outcome is Ended.UNKNOWN for one in appends)
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
        for one in judge(record):
            broken.setdefault(one.id, []).append(one.text)
    unseen = UNSEEN_IN_WAN if play.world == WAN else ()
    return [
        Invariant(
            name,
            " ".join((check.__doc__ or "").split()),
            record is not None and name not in unseen,
            tuple(broken.get(name, ())),
        )
        for name, check in INVARIANTS.items()
    ]


def _lost_and_doubled(play: PlayedScenario) -> tuple[int, int]:
    """Acknowledged records that a complete reader did not get; records that one got twice."""
    complete = [read for read in play.history.reads if read.is_complete]
    if not complete:
        return 0, 0
    first = play.truncated_before
    wanted = [
        one
        for one in play.history.of_outcome(Ended.OK)
        if first is None or one.dlsn is None or one.dlsn >= first
    ]
    lost = doubled = 0
    for read in complete:
        places: dict[bytes, set[Dlsn]] = {}
        for one in read.records:
            places.setdefault(one.payload, set()).add(one.dlsn)
        lost = max(lost, sum(one.payload not in places for one in wanted))
        doubled = max(doubled, sum(len(found) > 1 for found in places.values()))
    return lost, doubled


def _checks(play: PlayedScenario, outcome: ScenarioOutcome) -> Iterator[ExpectationResult]:
    expect = play.scenario.expect
    yield _most("acknowledged records that are lost", outcome.lost, expect.lost, "")
    yield _most("records that came twice", outcome.doubled, expect.doubled, "")
    yield ExpectationResult(
        "acknowledged records",
        f"at least {expect.acked_min}",
        str(outcome.acked),
        outcome.acked >= expect.acked_min,
    )
    yield _most(
        "appends go on after the last fault", outcome.resume_ms, expect.resume_ms_max, " ms"
    )
    if expect.whole_ms_max:
        text = f"all copies are there, in {expect.whole_regions} regions"
        yield _most(text, play.whole_ms, expect.whole_ms_max, " ms")
    if expect.archived_min:
        archived, least = play.archived or 0, expect.archived_min
        yield ExpectationResult(
            "archived segments", f"at least {least}", str(archived), archived >= least
        )
    if play.archived is not None:
        found = play.archive_faults[0] if play.archive_faults else "equal"
        yield ExpectationResult(
            "the archive and what readers got", "equal", found, not play.archive_faults
        )
    if play.query_faults is not None:
        found = play.query_faults[0] if play.query_faults else "equal"
        text = "the Spark query and what readers got"
        yield ExpectationResult(text, "equal", found, not play.query_faults)
    behind = [name for name, got_all in play.caught_up.items() if not got_all]
    if play.caught_up:
        found = f"{len(behind)} of {len(play.caught_up)} did not"
        yield ExpectationResult(
            "readers from the start caught up", "all", found if behind else "all", not behind
        )
    for limit in [one for one in expect.unavailable if one.world in ("", play.world)]:
        for level in _levels(outcome, limit.operation, limit.region):
            where = "anywhere" if level.region == EVERYWHERE else f"in {level.region}"
            what = {APPEND: "an append", DELIVER: "a delivery"}[level.operation]
            text = f"longest time without {what} {where}"
            yield _most(text, level.unavailable_ms, limit.ms_max, " ms")


def _levels(outcome: ScenarioOutcome, operation: str, region: str) -> list[ServiceLevel]:
    mine = [level for level in outcome.levels if level.operation == operation]
    exact = [level for level in mine if level.region == region]
    return mine if region == EVERYWHERE and not exact else exact


def _most(text: str, found: float | None, most: float, unit: str) -> ExpectationResult:
    if found is None:
        return ExpectationResult(text, f"at most {most:.0f}{unit}", "never", held=False)
    return ExpectationResult(text, f"at most {most:.0f}{unit}", f"{found:.0f}{unit}", found <= most)
