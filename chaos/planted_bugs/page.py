"""The table of mutations as a page of the documentation."""

from collections.abc import Sequence

from .runner import NONE, Budget, HuntResult

_HEAD = """\
# Planted bugs

Written by `make mutations`; do not edit.

Each bug is a patch in `chaos/planted_bugs/patches`, applied to a copy of the package. The copy runs
without assertions (`python -O`), so that only the checker can find it, and only the invariants that
the patch names count as a find: *found by* lists those that were broken in the first seed in which
any was. The same seed was then run on the unchanged package, in which the checker finds nothing.
[The simulator](simulator.md) says what the invariants and the plans are. To plant one again:

```text
make mutation NAME=b5 SEED=1
```
"""


def page(outcomes: Sequence[HuntResult], budget: Budget) -> str:
    """The whole page."""
    tried = [outcome for outcome in outcomes if outcome.name != NONE]
    found = sum(outcome.is_found for outcome in tried)
    lines = [_HEAD, f"{found} of {len(tried)} are found, in at most {budget.seeds} seeds each.", ""]
    lines += [
        "| bug | what it does | plan | found by | seeds until found | again |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(outcome) for outcome in outcomes]
    return "\n".join(lines) + "\n"


def _row(outcome: HuntResult) -> str:
    again = ""
    if outcome.is_found:
        found, seeds = ", ".join(outcome.found_by), str(outcome.seeds)
        again = f"`NAME={outcome.name} SEED={outcome.seed}`"
    elif outcome.name == NONE:
        found, seeds = "nothing, as it should be", f"none in {outcome.seeds}"
    else:
        found, seeds = "**not found**", f"none in {outcome.seeds}"
    return f"| {outcome.name} | {outcome.title} | `{outcome.plan}` | {found} | {seeds} | {again} |"
