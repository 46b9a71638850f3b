"""A few seeds of one plan, and what they came to together."""

from collections import Counter

import pytest

from rhumbline.chaos.simulation.seed_run import RunResult, run_plan
from rhumbline.chaos.simulation.seed_runner import PLANS


def play(plan: str, request: pytest.FixtureRequest, seeds: int) -> list[RunResult]:
    """Runs as many seeds as the command line says, or else ``seeds``."""
    first = request.config.option.seed
    count = request.config.option.seeds or seeds
    return [run_plan(PLANS[plan](seed)) for seed in range(first, first + count)]


def violations(results: list[RunResult]) -> dict[str, list[str]]:
    """By seed; those in which every promise was kept are left out."""
    found = {one.plan.seed: [str(v) for v in one.violations] for one in results}
    return {seed: texts for seed, texts in found.items() if texts}


def states(results: list[RunResult]) -> Counter[str]:
    """How often each state was seen in all of them."""
    seen: Counter[str] = Counter()
    for one in results:
        seen.update(one.states)
    return seen


def played_again(plan: str, result: RunResult) -> RunResult:
    """The same seed once more."""
    return run_plan(PLANS[plan](int(result.plan.seed.split()[0])))
