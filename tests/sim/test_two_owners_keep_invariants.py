"""Two write proxies believe that they own a stream, and no invariant is violated in any seed.

A proxy is paused, another one takes its streams over, and the first one resumes. The proxies and
the thin producers are production code; only gRPC is replaced by messages over simulated
connections. The string "course" seeds a generator, so it is part of a seed's identity.
"""

import asyncio
from random import Random

import pytest

from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.seed_run import RunPlan
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.tests.support.simulation.region_run import plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check

SEEDS = 6
ROUNDS = 3


def a_plan(seed: int) -> RunPlan:
    return plan(f"{seed} proxies", pause_ms=300, roll_ms=60_000)


async def stop_and_wake(run: ProxyRun, random: Random) -> int:
    """Pause the owner for some seconds, sometimes together with another fault.

    Returns how often two proxies believed that they own the stream when it resumed.
    """
    twos = 0
    for _ in range(ROUNDS):
        await run.acks(30, 60)
        owner = random.choice(run.owners())
        owner.pause()
        await asyncio.sleep(random.uniform(0.5, 5.0))
        other = random.choice([host for host in run.proxy_hosts if host is not owner])
        fault = random.choice(("none", "kill", "cut", "pause"))
        if fault == "kill":
            other.kill()
        elif fault == "cut":
            run.world.cut_region(other.region)
        elif fault == "pause":
            other.pause()
        await asyncio.sleep(random.uniform(0.0, 2.0))
        twos += len(run.owners()) > 1
        owner.resume()
        await asyncio.sleep(random.uniform(0.0, 1.0))
        if fault == "kill":
            other.start_again()
        elif fault == "cut":
            run.world.heal_region(other.region)
        other.resume()
    await run.acks(30, 60)
    return twos


def play(seed: int) -> tuple[ProxyRun, int]:
    run_plan = a_plan(seed)
    twos: list[int] = []
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = ProxyRun(world, run_plan)

        async def script(run: ProxyRun) -> None:
            twos.append(await stop_and_wake(run, world.random_of("course")))

        play_and_check(world, run, script, time_limit_s=3_600)
        assert run.apps.acked >= ROUNDS * 30
    return run, twos[0]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> list[tuple[ProxyRun, int]]:
    first = request.config.option.seed
    return [play(seed) for seed in range(first, first + (request.config.option.seeds or SEEDS))]


@pytest.mark.timeout(600)
def test_nothing_is_lost_duplicated_or_reordered_in_any_seed(
    runs: list[tuple[ProxyRun, int]],
) -> None:
    acked = sum(run.apps.acked for run, _ in runs)
    print(f"{len(runs)} seeds, {acked} records, two owners at once {sum(n for _, n in runs)} times")


def test_two_owners_occur_at_once(runs: list[tuple[ProxyRun, int]]) -> None:
    assert sum(twos > 0 for _, twos in runs) >= len(runs) // 2


def test_a_seed_gives_one_trace() -> None:
    digests = [play(1)[0].world.trace.digest() for _ in range(2)]
    assert digests[0] == digests[1]
