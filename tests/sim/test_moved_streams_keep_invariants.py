"""Streams move between write proxies under faults: nothing is lost, duplicated or reordered.

The assignments are changed as an operator or a balancer changes them, and followed by production
code. In a first part without faults the pause of each move is measured.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from rhumbline.chaos.checker.history import AppendOutcome
from rhumbline.chaos.simulation.cluster import NAMESPACE, STREAM, until
from rhumbline.chaos.simulation.proxies.proxy_controls import PROXY_PORT
from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.seed_run import RunPlan
from rhumbline.chaos.simulation.world.sim_world import SimHost, SimWorld
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.proxies.balance.assignment_store import change_table
from rhumbline.proxies.balance.assignments import AssignmentTable
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.routing import stream_key
from rhumbline.proxies.write.claims import Claims
from rhumbline.tests.support.simulation.region_run import plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check

SEEDS = 1
HOME = "east"
CALM_MOVES = 3
ROUNDS = 3
PAUSE_MS_MAX = 200
KEY = stream_key(NAMESPACE, STREAM)
CONFIG = ProxyConfig(session_ttl_ms=1_000, balance_ms=1_000, balance_stay_ms=0)


class Moved(NamedTuple):
    """The moves of a run."""

    run: ProxyRun
    pauses_ms: tuple[float, ...]
    """The longest time without an acknowledgement around each move without faults."""
    arrived: int
    """Moves under faults after which the stream reached its new owner."""


def a_plan(seed: int) -> RunPlan:
    return plan(f"{seed} moves", pause_ms=200, roll_ms=60_000)


async def assign(run: ProxyRun, operator: SimHost, target: SimHost) -> None:
    """Assign the stream to a proxy; repeat it until the metadata store has accepted it."""
    address = f"{target.name}:{PROXY_PORT}"

    def change(table: AssignmentTable) -> AssignmentTable:
        return table.with_pin(KEY, address)

    async def work() -> None:
        async with run.cluster.client(operator) as client:
            while True:
                try:
                    await change_table(client.store, target.region, change)
                    return
                except RhumblineError:
                    await asyncio.sleep(0.1)

    await operator.spawn(work(), "assign")


async def set_home(run: ProxyRun, operator: SimHost) -> None:
    """Set the home region of the stream."""
    async with run.cluster.client(operator) as client:
        await Claims(client.store).set_home(NAMESPACE, STREAM, HOME)


def longest_gap_ms(run: ProxyRun, begin_ms: float, end_ms: float) -> float:
    """Return the longest time without an acknowledgement in an interval."""
    acked = sorted(
        append.ended_ms
        for append in run.history.appends_with_outcome(AppendOutcome.OK)
        if append.ended_ms is not None and begin_ms <= append.ended_ms < end_ms
    )
    return max(later - earlier for earlier, later in pairwise(acked))


async def move_calmly(run: ProxyRun, operator: SimHost, pair: Sequence[SimHost]) -> list[float]:
    """Move the stream back and forth, and return the pause of each move in ms."""
    pauses = []
    loop = run.world.loop
    for number in range(CALM_MOVES):
        target = pair[number % 2]
        began_ms = loop.now * 1000
        await asyncio.sleep(0.5)
        await assign(run, operator, target)
        async with asyncio.timeout(5):
            await until(lambda target=target: run.owners() == [target])  # type: ignore[misc]
        await asyncio.sleep(0.5)
        pauses.append(longest_gap_ms(run, began_ms, loop.now * 1000))
    return pauses


async def move_under_faults(
    run: ProxyRun, operator: SimHost, pair: Sequence[SimHost], random: Random
) -> int:
    """Move the stream while a proxy, the store or a region fails; return how often it arrived."""
    arrived = 0
    for number in range(ROUNDS):
        target = pair[number % 2]
        victim = random.choice(pair)
        fault = random.choice(("kill", "pause", "stop", "cut", "sessions"))
        moving = asyncio.ensure_future(assign(run, operator, target))
        await asyncio.sleep(random.uniform(0.0, 0.1))
        if fault == "kill":
            victim.kill()
        elif fault == "pause":
            victim.pause()
        elif fault == "stop":
            run.stop(victim, 500)
        elif fault == "cut":
            run.world.cut_region(victim.region)
        else:
            other = random.choice(pair)
            other.pause()
            run.world.later(1.5, other.resume)  # its session expires meanwhile
        await asyncio.sleep(random.uniform(0.5, 2.5))
        if fault == "kill":
            victim.start_again()
        elif fault == "pause":
            victim.resume()
        elif fault == "cut":
            run.world.heal_region(victim.region)
        await moving
        await run.acks(20, 60)
        await asyncio.sleep(3.0)
        arrived += run.owners() == [target]
    return arrived


def play(seed: int) -> Moved:
    run_plan = a_plan(seed)
    pauses: list[float] = []
    arrived: list[int] = []
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = ProxyRun(world, run_plan, config=CONFIG)

        async def script(run: ProxyRun) -> None:
            pair = [host for host in run.proxy_hosts if host.region == HOME]
            operator = world.host("operator", HOME)
            operator.start(_idle)
            await operator.spawn(set_home(run, operator), "set home")
            await run.acks(20, 60)
            async with asyncio.timeout(30):
                await until(lambda: len(run.owners()) == 1 and run.owners()[0] in pair)
            await asyncio.sleep(2.0)
            pair.sort(key=lambda host: host in run.owners())
            pauses.extend(await move_calmly(run, operator, pair))
            random = world.random_of("moves")
            arrived.append(await move_under_faults(run, operator, pair, random))
            operator.kill("is done")

        play_and_check(world, run, script, time_limit_s=3_600)
    return Moved(run, tuple(pauses), arrived[0])


async def _idle(_: SimHost) -> None:
    await asyncio.Event().wait()


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> list[Moved]:
    first = request.config.option.seed
    return [play(seed) for seed in range(first, first + (request.config.option.seeds or SEEDS))]


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_stored_twice_and_the_stream_arrives(runs: list[Moved]) -> None:
    acked = sum(moved.run.apps.acked for moved in runs)
    arrived = sum(moved.arrived for moved in runs)
    print(f"{len(runs)} seeds, {acked} records, {arrived} of {ROUNDS * len(runs)} moves arrived")
    assert arrived >= ROUNDS * len(runs) - len(runs)


def test_a_move_pauses_its_stream_once_and_briefly(runs: list[Moved]) -> None:
    pauses = [pause for moved in runs for pause in moved.pauses_ms]
    print("pauses:", ", ".join(f"{pause:.0f} ms" for pause in sorted(pauses)))
    assert len(pauses) >= len(runs) * CALM_MOVES
    assert max(pauses) < PAUSE_MS_MAX
