"""The time in which each planted bug is found, by exploration or by ``make sim-many``.

A bug with a scope is found in the time of the scope. A bug that a plan finds is found when the
default run has come to the seed: after the seeds until then, at the CPU time of a seed of the plan,
divided by the plan's share of the time. Other plans may find the bug earlier. For some bugs the
default run was made, and its time is known.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..simulation.seed_runner import SHARES

LIMIT_S = 1_200.0
"""The CPU time of ``make sim-many MINUTES=10`` on two cores, in seconds."""

HEADING = "## Time to find"

_SCOPE_ROW = re.compile(
    r"^\| (\S+) \| .* \| `(\S+)` \| (\S+) \| [\d,]+ \| ([\d.]+) \|$", re.MULTILINE
)
_SEEDS_ROW = re.compile(r"^\| `(\S+)` \| ([\d,]+) \| \d+ \|", re.MULTILINE)
_MEASURED_ROW = re.compile(
    r"^\| (\S+) \| [^|]+ \| (seed \d+ of `\S+`)? *\| [^|]+ \| (\d+) \|$", re.MULTILINE
)
_PLAN_ROW = re.compile(r"^\| (\S+) \| .* \| `(\S+)` \| [^|]+ \| (\d+) \| [^|]*\|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TimeToFind:
    """The quickest way to find a bug. ``seconds`` is None if its time is not known."""

    bug: str
    way: str
    seconds: float | None
    measured: str = ""
    """The CPU seconds and the seed of a default run; empty if none was made for this bug."""

    @property
    def is_within_limit(self) -> bool:
        """True if the default run of ten minutes, or one exploration, finds the bug."""
        return self.seconds is not None and self.seconds <= LIMIT_S

    def row(self) -> str:
        """Return the row of the table."""
        if self.seconds is None:
            time = "not known"
        else:
            time = f"{self.seconds:,.1f}" if self.seconds < 10 else f"{self.seconds:,.0f}"
        shown = time if self.is_within_limit else f"**{time}**"
        return f"| {self.bug} | {self.way} | {shown} | {self.measured} |"


def times_to_find(planted: str, scopes: str, simulator: str) -> Iterator[TimeToFind]:
    """Yield the time for each bug of the pages about planted bugs and scopes, slowest first.

    ``simulator`` is the page with the table of seeds per hour.
    """
    _, _, bugs = scopes.partition("## Planted bugs")
    explored = {
        bug: (scope, float(s)) for bug, scope, by, s in _SCOPE_ROW.findall(bugs) if by[0] != "*"
    }
    per_hour = {plan: int(seeds.replace(",", "")) for plan, seeds in _SEEDS_ROW.findall(simulator)}
    found = {bug: (plan, int(seeds)) for bug, plan, seeds in _PLAN_ROW.findall(planted)}
    measured = {
        bug: f"{s} ({seed})" if seed else f"not within {s}"
        for bug, seed, s in _MEASURED_ROW.findall(planted)
    }
    every = [
        replace(_time_of(bug, explored, found, per_hour), measured=measured.get(bug, ""))
        for bug in {**explored, **found}
    ]
    yield from sorted(every, key=lambda one: (-_sortable(one.seconds), one.bug))


def _sortable(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _time_of(
    bug: str,
    explored: Mapping[str, tuple[str, float]],
    found: Mapping[str, tuple[str, int]],
    per_hour: Mapping[str, int],
) -> TimeToFind:
    ways: list[TimeToFind] = []
    if bug in explored:
        scope, seconds = explored[bug]
        ways.append(TimeToFind(bug, f"scope `{scope}`", seconds))
    if bug in found:
        plan, seeds = found[bug]
        ways.append(TimeToFind(bug, f"seed {seeds} of `{plan}`", _default_s(plan, seeds, per_hour)))
    return min(ways, key=lambda one: _sortable(one.seconds))


def _default_s(plan: str, seeds: int, per_hour: Mapping[str, int]) -> float | None:
    if plan not in per_hour or plan not in SHARES:
        return None
    return seeds * 3600 / per_hour[plan] * sum(SHARES.values()) / SHARES[plan]


def section(planted: str, scopes: str, simulator: str) -> str:
    """Return the section of the page about planted bugs; "" without the table of seeds per hour."""
    if not _SEEDS_ROW.search(simulator):
        return ""
    every = list(times_to_find(planted, scopes, simulator))
    within = sum(one.is_within_limit for one in every)
    head = f"""\
{HEADING}

For each bug, the CPU seconds until it is found: by its scope, or by `make sim-many`, whichever
is quicker. For a plan this is computed: the seeds until found, at the plan's [seeds per CPU
hour](simulator.md#seeds-per-hour), divided by its share of the time. The run gives each plan at
least half of this share, and more while it finds new situations; other plans may find the bug
earlier. `make sim-many MINUTES=10` has {LIMIT_S:,.0f} CPU seconds on two cores. {within} of
{len(every)} bugs are found within them; longer times are **bold**. *Measured* are the CPU seconds
of a whole default run on one core until it found the bug, for the bugs for which such a run was
made ([In the default run](#in-the-default-run)).

| bug | way | CPU s, computed | CPU s, measured |
|---|---|---:|---|
"""
    return head + "\n".join(one.row() for one in every) + "\n"
