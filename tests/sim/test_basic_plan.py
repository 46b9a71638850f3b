"""The plan ``basic``: a bookie is killed and a region cut off while appends are in progress.

Each seed is a separate run with three regions of two bookies, one writer or two that take the
stream over from each other, and a tailing reader in one region. No invariant may be violated in any
of them.
"""

import os
import subprocess
import sys

import pytest

from rhumbline.chaos.simulation.seed_runner import SeedTotals, run_many

SEEDS = 20
CORES = 2


@pytest.fixture(scope="module")
def total(request: pytest.FixtureRequest) -> SeedTotals:
    first = request.config.option.seed
    count = request.config.option.seeds or SEEDS
    return run_many("basic", range(first, first + count), jobs=CORES)


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_in_any_seed(total: SeedTotals) -> None:
    assert [(run.seed, run.violations) for run in total.failed] == []


def test_every_seed_has_enough_appends_and_both_faults(total: SeedTotals) -> None:
    assert total.acked_min >= 200
    assert total.faults == {"cut-region": total.seeds, "kill": total.seeds}


def test_faults_occur_while_appends_are_in_progress(total: SeedTotals) -> None:
    for kind in ("cut-region", "kill"):
        assert len(total.overlaps[kind]) == total.seeds
        assert min(total.overlaps[kind]) > 0


def test_some_seeds_change_ensembles_and_recover_ledgers_of_running_writers(
    total: SeedTotals,
) -> None:
    if total.seeds < SEEDS:
        pytest.skip("too few seeds to expect everything")
    assert total.states["ensemble changes"] > SEEDS / 4
    assert total.states["recovery entry absent"] > SEEDS / 4
    assert total.states["recovery entry recover"] > SEEDS / 4


def test_every_seed_ran(total: SeedTotals, request: pytest.FixtureRequest) -> None:
    """Print the time (about 10 s for 100 seeds on two idle cores), which is not a limit."""
    print(f"{total.seeds} seeds: {total.real_s:.1f} s of {CORES} cores")
    assert total.seeds == (request.config.option.seeds or SEEDS)


@pytest.mark.parametrize("plan", ["basic", "swarm"])
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
