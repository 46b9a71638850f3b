"""A failing plan made smaller: faults are left out one at a time while it still fails."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from .scenario import Plan, Result, run_plan

RUNS_MAX = 200


def shrink(
    plan: Plan, failure: str, *, run: Callable[[Plan], Result] = run_plan
) -> tuple[Plan, Result]:
    """The smallest plan found that still breaks the invariant ``failure``, and its result."""
    best, result = plan, run(plan)
    runs = 1
    is_smaller = True
    while is_smaller and runs < RUNS_MAX:
        is_smaller = False
        for candidate in _smaller(best):
            attempt = run(candidate)
            runs += 1
            if any(violation.id == failure for violation in attempt.violations):
                best, result, is_smaller = candidate, attempt, True
                break
            if runs >= RUNS_MAX:
                break
    return best, result


def _smaller(plan: Plan) -> Iterator[Plan]:
    for fault in plan.faults:
        yield plan.without(fault)
    for place in range(1, len(plan.writers)):
        writers = plan.writers[:place] + plan.writers[place + 1 :]
        yield replace(plan, writers=writers)
    for reader in plan.readers:
        yield replace(plan, readers=tuple(name for name in plan.readers if name != reader))
