"""Owners that are killed or hung are replaced before their session expires; live ones stay.

Three regions have two write proxies each. In each round the owner of the stream is
killed or paused, and the time until the next acknowledgement is measured. Other runs kill nobody,
but starve proxies of CPU or cut links between them, and count the owners that were replaced
needlessly.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from rhumbline.chaos.simulation.cluster import until
from rhumbline.chaos.simulation.proxies.proxy_run import ProxyRun
from rhumbline.chaos.simulation.seed_run import RunPlan
from rhumbline.chaos.simulation.workload.workload import WriterHabits
from rhumbline.chaos.simulation.world.sim_world import SimHost, SimTopology, SimWorld
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.probing import loss_verdict
from rhumbline.proxies.probing.loop_lateness import LoopLateness
from rhumbline.proxies.probing.prober import Prober
from rhumbline.tests.support.simulation.region_run import plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check

ROUNDS = 4
PAUSE_MS_MAX = 500
SETTLE_S = 2.5
QUIET_S = 2.0
STARVED_S = 10.0
STARVED_PAUSE_S_MAX = 0.45

ZONES = SimTopology(
    regions=("east", "north", "west"),
    delays_ms=(("east", "north", 1.0), ("east", "west", 1.0), ("north", "west", 1.0)),
)
"""Regions at distances of availability zones, so that a takeover takes no time worth mentioning."""

HOLD_S = (0.8, 3.0)
"""Shortest and longest time for which an owner is down."""


@dataclass
class Outcome:
    """The pauses of the producers by fault, and what the proxies decided."""

    pauses_ms: dict[str, list[float]] = field(default_factory=lambda: {"kill": [], "pause": []})
    decided: Counter[str] = field(default_factory=Counter)
    run: ProxyRun | None = None


def a_plan(seed: str) -> RunPlan:
    return replace(
        plan(seed, topology=ZONES, roll_ms=60_000),
        habits=WriterHabits(pause_ms=100, burst_max=2),
        readers=(),
    )


def play(seed: str, script: "Script", config: ProxyConfig | None = None) -> Outcome:
    outcome = Outcome()
    run_plan = a_plan(seed)
    with SimWorld(run_plan.seed, run_plan.topology) as world:
        run = outcome.run = ProxyRun(world, run_plan, config=config or ProxyConfig(balance_ms=0))
        run.quiet_s = QUIET_S  # until each proxy has heard those that it watches

        async def work(run: ProxyRun) -> None:
            await script(run, outcome)
            for service in run.services.values():
                outcome.decided.update(
                    {name: int(count) for name, count in service.statistics()["probing"].items()}
                )
                outcome.decided["removed"] += service.statistics()["removed"]

        play_and_check(world, run, work, time_limit_s=3_600)
    return outcome


class Script:
    """A function of a run and its outcome."""

    async def __call__(self, run: ProxyRun, outcome: Outcome) -> None: ...


class OwnersEnd(Script):
    """Kills or pauses the owner, ``ROUNDS`` times, and measures the pause of the producers."""

    async def __call__(self, run: ProxyRun, outcome: Outcome) -> None:
        random = run.world.random_of("owners end")
        for _ in range(ROUNDS):
            await run.acks(20, 30)
            await until(lambda: len(run.owners()) == 1)
            (owner,) = run.owners()
            kind = random.choice(("kill", "pause"))
            hold_s = random.uniform(*HOLD_S)
            began = run.world.loop.now
            if kind == "kill":
                owner.kill()
                run.world.later(hold_s, owner.start_again)
            else:
                owner.pause()
                run.world.later(hold_s, owner.resume)
            await asyncio.sleep(0.06)  # acknowledgements that were on their way
            await run.acks(1, 10)
            outcome.pauses_ms[kind].append((run.world.loop.now - began) * 1000)
            await asyncio.sleep(hold_s + SETTLE_S)


class ProxiesStarve(Script):
    """Pauses all proxies again and again for a short time, as if they were short of CPU."""

    async def __call__(self, run: ProxyRun, outcome: Outcome) -> None:
        starving = Tasks()
        for host in run.proxy_hosts:
            starving.spawn(self._starve(run, host), f"starve {host.name}")
        await asyncio.sleep(STARVED_S)
        await starving.aclose()
        for host in run.proxy_hosts:
            host.resume()
        await asyncio.sleep(SETTLE_S)

    async def _starve(self, run: ProxyRun, host: SimHost) -> None:
        random = run.world.random_of(f"starve {host.name}")
        while True:
            await asyncio.sleep(random.uniform(0.01, 0.3))
            host.pause()
            await asyncio.sleep(random.uniform(0.01, STARVED_PAUSE_S_MAX))
            host.resume()


class OneProxyStarves(Script):
    """Pauses the owner often for a short time, and then for a longer one, as a busy host does."""

    async def __call__(self, run: ProxyRun, outcome: Outcome) -> None:
        random = run.world.random_of("one starves")
        await until(lambda: len(run.owners()) == 1)
        (owner,) = run.owners()
        for pause_s in (*[0.25] * 12, 0.9):
            await asyncio.sleep(random.uniform(0.1, 0.3))
            owner.pause()
            await asyncio.sleep(pause_s)
            owner.resume()
        await asyncio.sleep(SETTLE_S)
        assert run.owners() == [owner]


class PairsAreCut(Script):
    """Cuts the link between two proxies of a region, which everybody else reaches."""

    async def __call__(self, run: ProxyRun, outcome: Outcome) -> None:
        first, second = (host for host in run.proxy_hosts if host.region == "east")
        for one, other in ((first, second), (second, first)):
            run.world.network.cut(one.name, other.name)
        await asyncio.sleep(5)
        run.world.network.heal_all()
        await asyncio.sleep(SETTLE_S)


SEEDS = 2


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest) -> list[Outcome]:
    first = request.config.option.seed
    seeds = request.config.option.seeds or SEEDS
    return [play(f"{seed} lost owners", OwnersEnd()) for seed in range(first, first + seeds)]


def test_owners_that_end_are_replaced_within_half_a_second(ended: list[Outcome]) -> None:
    for kind in ("kill", "pause"):
        pauses = sorted(p for outcome in ended for p in outcome.pauses_ms[kind])
        print(f"{kind}: {[round(p) for p in pauses]} ms")
        assert pauses
        assert pauses[-1] <= PAUSE_MS_MAX


def test_starved_proxies_keep_their_streams() -> None:
    outcome = play("starved", ProxiesStarve())
    print(dict(outcome.decided))
    assert outcome.decided["reports"] > 0
    assert outcome.decided["lost_silent"] + outcome.decided["lost_gone"] == 0


def test_one_starved_proxy_keeps_its_streams() -> None:
    """Its watchers have all the CPU that they need, so only the proxy can say that it is late."""
    outcome = play("one starves", OneProxyStarves())
    print(dict(outcome.decided))
    assert outcome.decided["suspected"] > 0
    assert outcome.decided["lost_silent"] + outcome.decided["lost_gone"] == 0


def test_a_cut_between_two_proxies_replaces_neither() -> None:
    outcome = play("cut", PairsAreCut())
    print(dict(outcome.decided))
    assert outcome.decided["suspected"] >= 2
    assert outcome.decided["removed"] == 0


@pytest.mark.long
def test_starved_runs_find_a_watcher_that_trusts_its_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planted bug: silence counts while the watcher did not run, and nothing prolongs it."""

    def count_everything(self: LoopLateness, now_s: float, interval_s: float) -> None:
        del interval_s
        self.running_s += now_s - self._ticked_at_s
        self._ticked_at_s = now_s

    monkeypatch.setattr(LoopLateness, "tick", count_everything)
    monkeypatch.setattr(loss_verdict, "SLOWEST_FACTOR", 0.0)
    assert play("starved", ProxiesStarve()).decided["lost_silent"] > 0


def test_starved_runs_find_a_proxy_that_hides_its_lateness(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planted bug: the watchers do not hear that the proxy is short of CPU."""
    monkeypatch.setattr(LoopLateness, "expected_s", 0.0)
    with pytest.raises(AssertionError):
        play("one starves", OneProxyStarves())


@pytest.mark.long
def test_cuts_find_a_watcher_that_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: silence here is enough, although other proxies hear the peer."""
    monkeypatch.setattr(loss_verdict, "has_second_witness", lambda *_: True)
    monkeypatch.setattr(Prober, "_request_observations", lambda *_: None)
    assert play("cut", PairsAreCut()).decided["removed"] > 0
