"""The table of mutations as a page of the documentation."""

from collections.abc import Sequence

from .runner import NONE, Budget, Outcome

_HEAD = """\
# The simulator

`make sim SEED=7` runs the production code in virtual time with everything that seed 7 decides, and
prints a line for each event. `make sim-many MINUTES=20` runs seeds on all cores until time is up. A
seed that breaks a promise is run again with fewer and fewer faults, and told as the command that
replays it: `make sim PLAN=races SEED=80 KEEP=0,2,7`.

| plan | what it is |
|---|---|
| `swarm` | each seed turns on a random subset of all faults, with random rates |
| `races` | short runs: writers take over from each other, ambushes at ledger changes |
| `changes` | few writers, many entries under way, bookies fail one after the other |
| `mixed` | the three above in turn |
| `first-light` | a kill and a region cut while appends are under way |
| `steady` | a minute of 20 appends a second, for measuring |
| `liar` | a disk confirms syncs that it did not do; promises may break |

[What survives the loss of regions](region-loss-table.md) compares the planner with simulated runs.

## Planted bugs

Written by `make mutations`; do not edit below this line.

Each bug is a patch in `chaos/mutations/patches`, applied to a copy of the package. The copy runs
without assertions (`python -O`), so that only the checker can find it. *Found by* names the
invariants that were broken in the first seed in which any was; LIVE is a wait without end.
"""


def page(outcomes: Sequence[Outcome], budget: Budget) -> str:
    """The whole page."""
    lines = [_HEAD, f"At most {budget.seeds} seeds and {budget.seconds:.0f} s each.", ""]
    lines += [
        "| bug | what it does | plan | found by | seeds until found |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(outcome) for outcome in outcomes]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    if outcome.is_found:
        found, seeds = ", ".join(outcome.found_by), str(outcome.seeds)
    elif outcome.name == NONE:
        found, seeds = "nothing, as it should be", f"none in {outcome.seeds}"
    else:
        found, seeds = "**not found**", f"none in {outcome.seeds}"
    return f"| {outcome.name} | {outcome.title} | `{outcome.plan}` | {found} | {seeds} |"
