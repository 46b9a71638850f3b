"""Replays a scenario or a seed of a plan, and returns the run with its trace as a document."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...checker.run_record import INVARIANTS
from ...planted_bugs.hunt import is_find
from ...planted_bugs.patch import PlantedBug
from ...planted_bugs.patch import load as load_bug
from ...simulation.seed_run import LIVENESS, RunResult, SeedRun, run_plan
from ...simulation.seed_runner import PLANS
from .. import scenario_library
from ..report.judgement import outcome_of
from ..report.scenario_outcome import ScenarioOutcome
from ..sim_run import play_in_sim
from .trace_event import TraceEvent, TraceReader, fault_spans

EVENTS_MAX = 60_000
"""Maximum number of events of a document; later ones are counted and left out."""
TEXT_MAX = 300
"""Maximum number of characters of an event's text."""
SEEDS_MAX = 300
"""Maximum number of seeds in which a planted bug is sought."""
_PROBLEMS_MAX = 40
_PROBLEM_TEXT_MAX = 4_000


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """The run that is wanted: a scenario, a plan, or a planted bug in the plan that finds it."""

    kind: str
    """``scenario``, ``plan`` or ``bug``."""
    name: str
    seed: int


class _Lines:
    """Keeps the first lines of a trace as events, and counts the others."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.left_out = 0
        self._reader = TraceReader()

    def add(self, line: str) -> None:
        if len(self.events) >= EVENTS_MAX:
            self.left_out += 1
            return
        event = self._reader.event(line)
        self.events.append(event._replace(text=_cut(event.text, TEXT_MAX)))


def replay(order: ReplayOrder, on_seed: Callable[[int], None]) -> dict[str, Any]:
    """Run an order and return its document. ``on_seed`` is called before each seed.

    A planted bug is sought in up to ``SEEDS_MAX`` seeds; the document is of the first seed that
    finds it, or of the last one. It must be planted in this package already. Raises
    ConfigurationError (unknown scenario), PatchError (unknown bug), KeyError (unknown plan).
    """
    if order.kind == "scenario":
        on_seed(order.seed)
        return _replay_scenario(order)
    bug = load_bug(order.name) if order.kind == "bug" else None
    plan = order.name if bug is None else bug.plan
    for seed in range(order.seed, order.seed + (1 if bug is None else SEEDS_MAX)):
        on_seed(seed)
        lines = _Lines()
        ended: list[SeedRun] = []
        result = run_plan(PLANS[plan](seed), on_line=lines.add, on_end=ended.append)
        if bug is None or any(is_find(one.id, bug.counts) for one in result.violations):
            break
    return _document_of_seed(order, plan, seed, bug, result, ended[0], lines)


def _replay_scenario(order: ReplayOrder) -> dict[str, Any]:
    scenario = scenario_library.load(order.name)
    lines = _Lines()
    ended: list[SeedRun] = []
    play = play_in_sim(scenario, order.seed, on_line=lines.add, on_end=ended.append)
    outcome = outcome_of(play)
    about = {"title": scenario.title, "about": scenario.about, "bug": None}
    return {
        **_frame(order, order.seed, about, ended[0], lines),
        "verdict": _verdict_of_scenario(outcome),
    }


def _document_of_seed(
    order: ReplayOrder,
    plan: str,
    seed: int,
    bug: PlantedBug | None,
    result: RunResult,
    run: SeedRun,
    lines: _Lines,
) -> dict[str, Any]:
    about = {
        "title": f"Plan {plan}, seed {seed}",
        "about": about_plan(plan),
        "bug": None if bug is None else {"name": bug.name, "title": bug.title},
    }
    problems = [(one.id, one.text) for one in result.violations]
    return {
        **_frame(order, seed, about, run, lines),
        "verdict": {
            **_verdict(result.is_good, problems),
            "invariants": len(INVARIANTS) + len(LIVENESS),
            "acked": result.acked,
            "failed": result.outcomes.get("failed", 0),
            "unknown": result.outcomes.get("unknown", 0),
            "digest": result.digest,
            "checks": [],
        },
    }


def about_plan(plan: str) -> str:
    """Return a sentence about a plan: the first paragraph of its function's docstring."""
    paragraph = (PLANS[plan].__doc__ or "").partition("\n\n")[0]
    words = " ".join(paragraph.split()).removeprefix("Return ")
    return words[:1].upper() + words[1:]


def _frame(
    order: ReplayOrder, seed: int, about: dict[str, Any], run: SeedRun, lines: _Lines
) -> dict[str, Any]:
    topology, quorum = run.plan.topology, run.plan.settings.policy.quorum
    return {
        "kind": order.kind,
        "name": order.name,
        "seed": seed,
        **about,
        "regions": list(topology.regions),
        "links": [
            {"between": [source, target], "round_trip_ms": 2 * delay_ms}
            for source, target, delay_ms in topology.delays_ms
        ],
        "servers": [
            {"server": host.name, "region": host.region} for host in run.world.hosts.values()
        ],
        "quorum": {
            "text": str(quorum),
            "write_quorum": quorum.write_quorum,
            "ack_quorum": quorum.ack_quorum,
            "min_regions": quorum.min_regions,
        },
        "lasts_ms": run.world.loop.now * 1000,
        "faults": [list(span) for span in fault_spans(lines.events)],
        "events": _rows(lines.events),
        "left_out": lines.left_out,
    }


def _rows(events: Iterable[TraceEvent]) -> list[list[Any]]:
    """Return events as rows: time, kind, source, target, state, text and, of appends, holders."""
    return [
        [
            round(one.at_ms, 3),
            one.kind.value,
            one.source,
            one.target,
            one.state,
            one.text,
            *([list(one.holders)] if one.holders else []),
        ]
        for one in events
    ]


def _verdict(is_good: bool, problems: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "is_good": is_good,
        "problems": [
            {"id": name, "means": _meaning(name), "text": _cut(text, _PROBLEM_TEXT_MAX)}
            for name, text in problems[:_PROBLEMS_MAX]
        ],
        "problems_left_out": max(0, len(problems) - _PROBLEMS_MAX),
    }


def _verdict_of_scenario(outcome: ScenarioOutcome) -> dict[str, Any]:
    problems = [("BROKEN", outcome.broke)] if outcome.broke else []
    problems += [(one.id, text) for one in outcome.invariants for text in one.violations]
    return {
        **_verdict(outcome.is_good, problems),
        "invariants": sum(one.is_judged for one in outcome.invariants),
        "acked": outcome.acked,
        "failed": outcome.failed,
        "unknown": outcome.unknown,
        "digest": outcome.digest,
        "checks": [
            {"text": one.text, "wanted": one.wanted, "found": one.found, "held": one.held}
            for one in outcome.checks
        ],
    }


def _meaning(name: str) -> str:
    if name in LIVENESS:
        return LIVENESS[name]
    check = INVARIANTS.get(name)
    return "" if check is None else " ".join((check.__doc__ or "").split())


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"
