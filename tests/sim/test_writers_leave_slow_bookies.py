"""One bookie takes ten times as long as before: appends with writers that stay, and that leave."""

import asyncio
from dataclasses import replace

from rhumbline.chaos.checker.history import AppendOutcome
from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

REGIONS = THREE_REGIONS.regions
ALL = Quorum(3, 3, 3, 3)
"""Each entry waits for a bookie of every region."""
SLOW_S = 40


def p99_ms(run: RegionRun, first_s: float, last_s: float) -> float:
    """Return the 99th percentile of the appends that were called between two times."""
    took = sorted(
        append.ended_ms - append.called_ms
        for append in run.history.appends_with_outcome(AppendOutcome.OK)
        if append.ended_ms is not None and first_s * 1000 <= append.called_ms < last_s * 1000
    )
    assert len(took) > 20
    return took[int(0.99 * (len(took) - 1))]


def measure(*, leaves: bool) -> tuple[float, float]:
    """Return the 99th percentile before the bookie is slow, and in its last ten slow seconds."""
    times: list[float] = []

    async def script(run: RegionRun) -> None:
        loop = run.world.loop
        await run.acks(100, 60)
        times.append(loop.now)
        (metadata,) = run.ledgers()
        host = next(
            host
            for host in run.cluster.bookie_hosts
            if run.cluster.bookie_ids[host.name] == metadata.last_fragment.bookies[0]
        )
        before_ms = p99_ms(run, 0, loop.now)
        for app in run.cluster.app_hosts:  # nine times as much again, in both directions
            run.world.network.lags_ms[app.name, host.name] = 4.5 * before_ms
            run.world.network.lags_ms[host.name, app.name] = 4.5 * before_ms
        await asyncio.sleep(SLOW_S)
        times.append(loop.now)
        assert (run.cluster.slow_departures != []) == leaves
        run.world.network.lags_ms.clear()

    settings = plan("slow bookie", quorum=ALL, roll_ms=3_600_000)
    if not leaves:
        ledger = replace(settings.settings.ledger, slow_after_ms=0)
        settings = replace(settings, settings=replace(settings.settings, ledger=ledger))
    run = run_script(script, settings, repairs=False)
    begin, end = times
    return p99_ms(run, 0, begin), p99_ms(run, end - 10, end)


def test_appends_are_slow_while_writers_stay_and_fast_again_once_they_left() -> None:
    before, stays = measure(leaves=False)
    _, leaves = measure(leaves=True)
    print(f"p99 before {before:.1f} ms, with the slow bookie {stays:.1f} ms, left {leaves:.1f} ms")
    assert stays > 8 * before
    assert leaves < 1.5 * before
