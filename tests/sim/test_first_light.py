"""The production code in virtual time: a kill and a region cut while adds are under way.

Each seed is a run of its own: three regions of two bookies, one writer or two that take the stream
over from each other, a tail in one region. The checker must find nothing, in any of them.
"""

import os
import subprocess
import sys

import pytest

from rhumbline.chaos.simulation.seed_runner import SeedTotals, run_many

SEEDS = 100
CORES = 2


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> SeedTotals:
    first = request.config.option.seed
    count = request.config.option.seeds or SEEDS
    return run_many("first-light", range(first, first + count), jobs=CORES)


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_in_any_seed(total: SeedTotals) -> None:
    assert [(run.seed, run.violations) for run in total.failed] == []


def test_every_seed_has_enough_appends_and_both_faults(total: SeedTotals) -> None:
    assert total.acked_min >= 200
    assert total.faults == {"cut-region": total.seeds, "kill": total.seeds}


def test_the_faults_hit_while_adds_are_under_way(total: SeedTotals) -> None:
    for kind in ("cut-region", "kill"):
        assert len(total.overlaps[kind]) == total.seeds
        assert min(total.overlaps[kind]) > 0


def test_some_seeds_change_ensembles_and_recover_ledgers_of_living_writers(
    total: SeedTotals,
) -> None:
    if total.seeds < SEEDS:
        pytest.skip("too few seeds to expect everything")
    assert total.states["ensemble changes"] > 10
    assert total.states["recovery entry absent"] > 10
    assert total.states["recovery entry recover"] > 10


def test_every_seed_ran_and_says_what_it_cost(
    total: SeedTotals, request: pytest.FixtureRequest
) -> None:
    """About 10 s for 100 seeds on two idle cores; the time is for people, benchmarks judge it."""
    print(f"{total.seeds} seeds: {total.real_s:.1f} s of {CORES} cores")
    assert total.seeds == (request.config.option.seeds or SEEDS)


@pytest.mark.parametrize("plan", ["first-light", "swarm"])
def test_one_seed_gives_one_trace_in_every_process(plan: str) -> None:
    command = [sys.executable, "-m", "rhumbline.chaos.simulation", "--plan", plan, "--brief"]
    traces = [
        subprocess.run(
            [*command, "--seed", "4"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "4711")
    ]
    assert traces[0] == traces[1]
    assert traces[0].count("\n") > 30
