"""Two write proxies that both believe to own a stream, simulated: a proxy is stopped, another
one takes its streams, the first goes on. The checker must find nothing, in any seed.

The proxies are the production classes (ownership, fan-in, the log's writer), and so are the thin
producers; only gRPC is replaced by messages over the world's connections.
"""

import asyncio
from random import Random

import pytest

from rhumbline.chaos.simulation.seed_run import RunPlan
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.tests.support.simulation.course_run import play_to_verdict
from rhumbline.tests.support.simulation.proxy_run import ProxyRun
from rhumbline.tests.support.simulation.region_run import plan

SEEDS = 15
ROUNDS = 3


def a_plan(seed: int) -> RunPlan:
    return plan(f"{seed} proxies", pause_ms=300, roll_ms=60_000)


async def stop_and_wake(run: ProxyRun, random: Random) -> int:
    """Stops the owner for some seconds, now and then with another fault beside it. Returns how
    often two proxies believed to own the stream when it woke up."""
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
    one = a_plan(seed)
    twos: list[int] = []
    with SimWorld(one.seed, one.topology) as world:
        run = ProxyRun(world, one)

        async def course(run: ProxyRun) -> None:
            twos.append(await stop_and_wake(run, world.random_of("course")))

        play_to_verdict(world, run, course, time_limit_s=3_600)
        assert run.apps.acked >= ROUNDS * 30
    return run, twos[0]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> list[tuple[ProxyRun, int]]:
    first = request.config.option.seed
    return [play(seed) for seed in range(first, first + (request.config.option.seeds or SEEDS))]


@pytest.mark.timeout(600)
def test_nothing_is_lost_doubled_or_reordered_in_any_seed(runs: list[tuple[ProxyRun, int]]) -> None:
    acked = sum(run.apps.acked for run, _ in runs)
    print(f"{len(runs)} seeds, {acked} records, two owners at once {sum(n for _, n in runs)} times")


def test_there_were_two_owners_at_once(runs: list[tuple[ProxyRun, int]]) -> None:
    assert sum(twos > 0 for _, twos in runs) >= len(runs) // 2


def test_a_seed_gives_one_trace() -> None:
    digests = [play(1)[0].world.trace.digest() for _ in range(2)]
    assert digests[0] == digests[1]
