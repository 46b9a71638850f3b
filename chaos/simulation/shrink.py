"""A failing plan made smaller: faults are left out one at a time while it still fails."""

from collections.abc import Callable
from dataclasses import replace

from .seed_run import RunPlan, RunResult, run_plan

RUNS_MAX = 200


def shrink(
    plan: RunPlan, failure: str, *, run: Callable[[RunPlan], RunResult] = run_plan
) -> tuple[int, ...]:
    """Places in the schedule of faults without any of which the invariant ``failure`` would hold.

    Fewer may do: it stops after ``RUNS_MAX`` runs.
    """
    kept = tuple(range(len(plan.faults)))
    runs = 0
    is_smaller = True
    while is_smaller and runs < RUNS_MAX:
        is_smaller = False
        for place in kept[::-1]:
            fewer = tuple(other for other in kept if other != place)
            result = run(only(plan, fewer))
            runs += 1
            if any(violation.id == failure for violation in result.violations):
                kept, is_smaller = fewer, True
            if runs >= RUNS_MAX:
                break
    return kept


def only(plan: RunPlan, places: tuple[int, ...]) -> RunPlan:
    """The plan with these of its faults."""
    return replace(plan, faults=tuple(plan.faults[place] for place in places))


def replay_command(name: str, seed: int, places: tuple[int, ...] | None = None) -> str:
    """What to type to see a seed of a plan again, with all of its faults or with these only."""
    command = f"make sim PLAN={name} SEED={seed}"
    return command if places is None else f"{command} KEEP={','.join(map(str, places)) or '-'}"
