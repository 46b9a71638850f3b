"""Clients survive the replacement of every proxy that they were started with.

Each proxy is replaced by one at another address, in random order, by a graceful stop or a kill. The
clients know only the first proxies, so in the end they depend on what they found by themselves.
"""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.proxies.config import ProxyConfig
from rhumbline.tests.support.simulation.region_run import plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check

SEEDS = 1
FOREVER_MS = 10_000_000
PAUSE_S_MAX = 3.0


async def replace_all(run: ProxyRun, random: Random) -> None:
    old = [*run.proxy_hosts, *run.read_hosts]
    random.shuffle(old)
    await run.acks(30, 60)
    for host in old:
        run.add_proxy(host)
        await asyncio.sleep(random.uniform(0.5, PAUSE_S_MAX))
        if random.random() < 0.5:
            run.stop(host, FOREVER_MS)
        else:
            host.kill()
        await asyncio.sleep(random.uniform(0.0, PAUSE_S_MAX))
    await asyncio.sleep(5)
    assert not [host for host in old if host.is_running]
    await run.acks(100, 60)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_is_lost_while_every_proxy_is_replaced(request: pytest.FixtureRequest) -> None:
    first, count = request.config.option.seed, request.config.option.seeds or SEEDS
    for seed in range(first, first + count):
        random = Random(f"{seed} replaced")
        run_plan = replace(plan(f"{seed} replaced", pause_ms=300, roll_ms=60_000), readers=())
        config = ProxyConfig(session_ttl_ms=1_000, balance_ms=random.choice((0, 1_000)))
        with SimWorld(run_plan.seed, run_plan.topology) as world:
            run = ProxyRun(world, run_plan, read_proxies=1, thin_readers=1, config=config)

            async def script(run: ProxyRun, random: Random = random) -> None:
                await replace_all(run, random)

            play_and_check(world, run, script, time_limit_s=3_600)
        read = sum(len(one.read.records) for one in run.thin.readers if one.read)
        print(f"seed {seed}: {run.apps.acked} records acknowledged, {read} read")
