"""Write proxies, read proxies and thin clients in three regions, simulated with faults.

All of their logic is production code; only gRPC is replaced by messages over simulated connections.
The checker must find no violation in any seed: nothing is lost, duplicated or reordered, whichever
process is killed, paused or cut off, and each reader reaches the end of the stream.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from rhumbline.chaos.checker.history import AppendOutcome
from rhumbline.chaos.checker.judge import judge
from rhumbline.chaos.simulation.cluster import Fault
from rhumbline.chaos.simulation.faults.faults import begin
from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.seed_run import RunPlan
from rhumbline.chaos.simulation.workload.workload import WriterHabits
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.config import ProxyConfig
from rhumbline.tests.support.simulation.region_run import plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check
from rhumbline.tests.support.simulation.wan_meter import WanMeter

SEEDS = 2
LASTS_MS = 9_000
HABITS = (
    WriterHabits(pause_ms=150, burst_max=1),  # many sets in flight at a time
    WriterHabits(pause_ms=400, burst_max=4),
    WriterHabits(pause_ms=1_000, burst_max=4),
)
THIN_READERS = 2
SETTLE_S = 6.0
"""Time after the faults for read proxies to register again and readers to return, in seconds."""
CALM_S = 1.0
CACHE_BYTES = 1 << 20
"""Size of a cache that holds everything that a run writes."""
CALLS_A_SECOND_MAX = 30
"""Limit for a client process of 3 producers and 2 readers, including redirected calls."""

STOP = "stop"
"""A fault of proxies only: they are stopped gracefully and hand over their streams."""

AGAIN_MAX = 2
"""Number of entries that may cross twice during a calm interval."""

Calm = tuple[float, float]
"""(start, end) of an interval without faults, in virtual ms."""

OWNER, READING = "owner", "reading"
"""Targets that are resolved when the fault begins."""


def a_plan(seed: int) -> RunPlan:
    random = Random(f"{seed} read proxies")
    regions, quorum = random.choice((((), Quorum(3, 3, 2, 2)), (("east", "north"), None)))
    return replace(
        plan(
            f"{seed} read proxies",
            regions=regions,
            quorum=quorum,
            roll_ms=random.choice((2_000, 60_000)),
        ),
        habits=random.choice(HABITS),
        faults=_faults(random),
        readers=(),
        lasts_ms=LASTS_MS,
    )


def _faults(random: Random) -> tuple[Fault, ...]:
    faults = []
    regions = ("east", "north", "west")
    for _ in range(random.randint(3, 10)):
        region, other = random.sample(regions, 2)
        kind, target, value = random.choice(
            (
                ("kill", OWNER, 0.0),
                ("kill", READING, 0.0),
                ("kill", READING, 0.0),
                (STOP, random.choice((OWNER, READING)), 0.0),
                ("pause", OWNER, 0.0),
                ("pause", READING, 0.0),
                ("isolate", READING, 0.0),
                ("power", random.choice((OWNER, READING)), 0.0),
                ("expire-sessions", random.choice((OWNER, READING)), 0.0),
                ("reset", random.choice((OWNER, READING)), 0.7),
                ("cut-region", region, 0.0),
                ("cut-one-way", f"{region}>{other}", 0.0),
                ("slow-link", f"{region}>{other}", random.choice((3.0, 10.0))),
                ("kill", f"bookie-{region}-{random.randrange(2)}", 0.0),
                ("pause", f"bookie-{region}-{random.randrange(2)}", 0.0),
                ("kill", f"app-{region}", 0.0),
                ("pause", f"app-{region}", 0.0),
                ("metadata-down", "metadata", 0.0),
                ("metadata-loses-answers", "metadata", 0.3),
            )
        )
        lasts_ms = random.choice((100, 700, 2_500, 5_000))
        faults.append(Fault(kind, target, random.randint(500, LASTS_MS), lasts_ms, value))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


async def inject_faults(run: ProxyRun) -> None:
    random = run.world.random_of("targets")
    start = run.world.loop.now
    for fault in run.plan.faults:
        await asyncio.sleep(max(0.0, start + fault.at_ms / 1000 - run.world.loop.now))
        if fault.target == OWNER:
            hosts = run.owners() or run.proxy_hosts
        elif fault.target == READING:
            hosts = run.reading() or run.read_hosts
        else:
            begin(run.cluster, fault)
            continue
        host = random.choice(hosts)
        if fault.kind == STOP:
            run.world.trace.count(STOP)
            run.stop(host, fault.lasts_ms)
        else:
            begin(run.cluster, replace(fault, target=host.name))
    ends = [fault.at_ms + fault.lasts_ms for fault in run.plan.faults]
    left_s = start + max(LASTS_MS, *ends) / 1000 - run.world.loop.now
    await asyncio.sleep(max(0.0, left_s) + 0.01)
    run.heal()
    await asyncio.sleep(SETTLE_S)


async def verify_caches(run: ProxyRun) -> None:
    """Verify the caches of read proxies periodically during the whole run."""
    while True:
        run.check_caches()
        await asyncio.sleep(0.05)


def play(seed: int) -> ProxyRun:
    run_plan = a_plan(seed)
    random = Random(f"{seed} proxies' settings")
    config = ProxyConfig(
        session_ttl_ms=1_000,
        acquire_ms_max=2_000,
        balance_ms=random.choice((0, 500, 2_000)),
        cache_bytes_max=random.choice((1, 2_000, CACHE_BYTES)),
    )
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = ProxyRun(
            world,
            run_plan,
            read_proxies=random.choice((1, 2)),
            thin_readers=THIN_READERS,
            config=config,
        )

        meter = WanMeter(run)
        calm: list[Calm] = []

        async def script(run: ProxyRun) -> None:
            verifying = Tasks()
            verifying.spawn(verify_caches(run), "verify caches")
            await inject_faults(run)
            late = [
                append
                for append in run.apps.pending()
                if append.called_ms < world.loop.now * 1000 - SETTLE_S * 1000
            ]
            assert not late, f"{late[0]} is pending {SETTLE_S} s after the faults"
            calm.append(await a_calm(world))
            await verifying.aclose()

        play_and_check(world, run, script, time_limit_s=3_600)
    if config.cache_bytes_max == CACHE_BYTES:
        check_crossings(run, meter, calm[0])
    return run


async def a_calm(world: SimWorld) -> Calm:
    """Wait for an interval without faults, and return it."""
    begin_ms = world.loop.now * 1000
    await asyncio.sleep(CALM_S)
    end_ms = world.loop.now * 1000
    await asyncio.sleep(0.5)
    return begin_ms, end_ms


def check_crossings(run: ProxyRun, meter: WanMeter, calm: Calm) -> Counter[str]:
    """Assert that entries of a calm interval crossed into each region at most once; count them.

    ``AGAIN_MAX`` entries may cross twice: an entry that overtakes its predecessor in the response
    to a long poll is read again. After a silence several bookies get a long poll for the next
    entry, so the caller must not begin the interval with one.
    """
    begin_ms, end_ms = calm
    crossed: dict[tuple[str, Dlsn], int] = {}
    for append in run.history.appends_with_outcome(AppendOutcome.OK):
        if begin_ms <= append.called_ms and (append.ended_ms or end_ms) < end_ms:
            assert append.dlsn is not None
            entry = append.dlsn._replace(slot=0)
            for region in run.plan.topology.regions:
                crossed[region, entry] = meter.crossings[region, append.token]
    again = {key: count for key, count in crossed.items() if count > 1}
    assert len(again) <= AGAIN_MAX, again
    return Counter(region for (region, _), count in crossed.items() if count)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> list[ProxyRun]:
    first = request.config.option.seed
    return [play(seed) for seed in range(first, first + (request.config.option.seeds or SEEDS))]


@pytest.mark.timeout(1_800)
def test_nothing_is_lost_duplicated_or_reordered_by_writers_or_readers(
    runs: list[ProxyRun],
) -> None:
    acked = sum(run.apps.acked for run in runs)
    delivered = sum(len(one.read.records) for run in runs for one in run.thin.readers if one.read)
    faults = Counter[str]()
    for run in runs:
        faults.update(run.world.trace.counts)
    print(f"{len(runs)} seeds, {acked} records acknowledged, {delivered} read, {dict(faults)}")
    assert acked >= 50 * len(runs)
    assert delivered >= acked


def test_clients_are_not_redirected_in_circles(runs: list[ProxyRun]) -> None:
    most = max(count for run in runs for count in run.calls_by_second().values())
    print(f"at most {most} calls of one process in a second")
    assert most <= CALLS_A_SECOND_MAX


def test_a_seed_gives_one_trace(runs: list[ProxyRun], request: pytest.FixtureRequest) -> None:
    first = request.config.option.seed
    assert play(first).world.trace.digest() == runs[0].world.trace.digest()


def test_the_wide_area_is_crossed_once_for_all_readers_of_a_region() -> None:
    """West has no copies: each entry that its readers read crosses regions once."""
    run_plan = replace(
        plan("one crossing", regions=("east", "north"), pause_ms=100, roll_ms=2_000), readers=()
    )
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = ProxyRun(world, run_plan, read_proxies=2, thin_readers=3)
        run.quiet_s = 3.0  # until every process knows all others
        meter = WanMeter(run)
        calm: list[Calm] = []

        async def script(run: ProxyRun) -> None:
            await asyncio.sleep(1.0)
            calm.append(await a_calm(world))

        world.run(run.play_script(script), time_limit_s=3_600)
        assert [str(violation) for violation in judge(run.record())] == []
        crossed = check_crossings(run, meter, calm[0])
    print(f"entries that crossed: {dict(crossed)}")
    assert crossed["west"] >= 10
    assert crossed["west"] == crossed.total(), "the other regions have local copies"


def test_readers_that_return_after_an_outage_cross_the_wide_area_once() -> None:
    """Each of them read what it had missed for itself before."""
    run_plan = replace(
        plan("returning readers", regions=("east", "north"), pause_ms=100, roll_ms=2_000),
        readers=(),
    )
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = ProxyRun(world, run_plan, read_proxies=1, thin_readers=4)
        run.quiet_s = 3.0
        meter = WanMeter(run)
        missed: list[Calm] = []

        async def script(run: ProxyRun) -> None:
            await asyncio.sleep(1.0)
            begin(run.cluster, Fault("kill", "app-west", 0, 6_000, 0.0))
            await asyncio.sleep(1.0)  # what was on its way has arrived
            begin_ms = world.loop.now * 1000
            await asyncio.sleep(4.0)
            missed.append((begin_ms, world.loop.now * 1000))
            await asyncio.sleep(5.0)

        world.run(run.play_script(script), time_limit_s=3_600)
        assert [str(violation) for violation in judge(run.record())] == []
        crossed = check_crossings(run, meter, missed[0])
    print(f"entries that crossed: {dict(crossed)}")
    assert crossed["west"] >= 10
    assert crossed["west"] == crossed.total(), "the other regions have local copies"
