"""Runs a few seeds of one plan and combines their results."""

from collections import Counter

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult, run_plan
from rhumbline.chaos.simulation.seed_runner import PLANS


def play(plan: str, request: pytest.FixtureRequest, seeds: int) -> list[RunResult]:
    """Run as many seeds as the command line says, or else ``seeds``."""
    first = request.config.option.seed
    count = request.config.option.seeds or seeds
    return [run_plan(PLANS[plan](seed)) for seed in range(first, first + count)]


def violations(results: list[RunResult]) -> dict[str, list[str]]:
    """Return the violations by seed, without seeds that have none."""
    found = {result.plan.seed: [str(v) for v in result.violations] for result in results}
    return {seed: texts for seed, texts in found.items() if texts}


def states(results: list[RunResult]) -> Counter[str]:
    """Return how often each state was seen in all runs."""
    seen: Counter[str] = Counter()
    for result in results:
        seen.update(result.states)
    return seen


def replay(plan: str, result: RunResult) -> RunResult:
    """Run the seed of a result again."""
    return run_plan(PLANS[plan](int(result.plan.seed.split()[0])))
