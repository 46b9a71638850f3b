"""Shrinks a failing plan: removes faults one at a time while the plan still fails."""

from collections.abc import Callable
from dataclasses import replace

from .seed_run import RunPlan, RunResult, run_plan

RUNS_MAX = 200


def shrink(
    plan: RunPlan, failure: str, *, run: Callable[[RunPlan], RunResult] = run_plan
) -> tuple[int, ...]:
    """Return the indexes of faults that are all needed to violate the invariant ``failure``.

    The search stops after ``RUNS_MAX`` runs, so a smaller set may exist.
    """
    kept = tuple(range(len(plan.faults)))
    runs = 0
    is_smaller = True
    while is_smaller and runs < RUNS_MAX:
        is_smaller = False
        for index in kept[::-1]:
            fewer = tuple(other for other in kept if other != index)
            result = run(only(plan, fewer))
            runs += 1
            if any(violation.id == failure for violation in result.violations):
                kept, is_smaller = fewer, True
            if runs >= RUNS_MAX:
                break
    return kept


def only(plan: RunPlan, indexes: tuple[int, ...]) -> RunPlan:
    """Return the plan with only the faults at these indexes."""
    return replace(plan, faults=tuple(plan.faults[index] for index in indexes))


def replay_command(name: str, seed: int, indexes: tuple[int, ...] | None = None) -> str:
    """Return the command that replays a seed, with all faults or only those at ``indexes``."""
    command = f"make sim PLAN={name} SEED={seed}"
    return command if indexes is None else f"{command} KEEP={','.join(map(str, indexes)) or '-'}"
