"""Readers of a read proxy that hangs continue at another one within a second or so."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.chaos.checker.history import AppendOutcome
from rhumbline.chaos.simulation.cluster import until
from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.proxies.client.silent_reads import SilentReads
from rhumbline.proxies.config import ProxyConfig
from rhumbline.tests.support.simulation.region_run import plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check

ROUNDS = 2
PAUSE_MS = {"busy": 500, "idle": 6_000}
"""Maximum pause between the appends of a producer."""


def longest_wait_s(load: str, rounds: int = ROUNDS) -> float:
    """Hang the reading proxy of a region a few times; return the longest wait of a reader.

    An idle stream is appended to after the proxy hangs, so its reader hears heartbeats only.
    """
    run_plan = replace(
        plan(
            f"hung reads {load}",
            regions=("east", "north"),
            pause_ms=PAUSE_MS[load],
            roll_ms=60_000,
        ),
        readers=(),
    )
    waits_s = []
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = ProxyRun(
            world, run_plan, read_proxies=2, thin_readers=1, config=ProxyConfig(balance_ms=0)
        )
        run.quiet_s = 3.0

        (reader,) = (r for r in run.thin.readers if r.host.region == "east")

        async def script(run: ProxyRun) -> None:
            for _ in range(rounds):
                await asyncio.sleep(3)
                hung = [host for host in run.reading() if host.region == "east"]
                assert len(hung) == 1
                hung[0].pause()
                await asyncio.sleep(0.1)  # what was on its way has arrived
                await run.acks(1, 60)
                began_s = world.loop.now
                acked = run.history.appends_with_outcome(AppendOutcome.OK)
                last = max(append.dlsn for append in acked if append.dlsn is not None)
                async with asyncio.timeout(30):
                    await until(lambda last=last: reader.has_read(last))  # type: ignore[misc]
                waits_s.append(world.loop.now - began_s)
                hung[0].resume()

        play_and_check(world, run, script, time_limit_s=3_600)
    print(f"{load}: readers waited for {[round(wait, 2) for wait in waits_s]} s")
    return max(waits_s)


@pytest.mark.parametrize(
    ("load", "seconds"), [("busy", 1.2), pytest.param("idle", 1.6, marks=pytest.mark.long)]
)
def test_reader_continues_elsewhere_soon(load: str, seconds: float) -> None:
    assert longest_wait_s(load) <= seconds


@pytest.mark.long
def test_a_client_that_checks_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: the reader waits for 3.5 s."""

    async def never(*_: object) -> None:
        return

    monkeypatch.setattr(SilentReads, "_check", never)
    assert longest_wait_s("busy", rounds=1) > 2.0
