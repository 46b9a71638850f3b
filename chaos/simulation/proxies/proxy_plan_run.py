"""Executes plans with proxies: faults may name the owner, or a proxy with readers or members."""

import asyncio
from dataclasses import replace
from functools import partial
from random import Random

from ....proxies.config import ProxyConfig
from ..cluster import Fault
from ..faults.faults import begin
from ..seed_run import RunPlan, RunResult
from ..world.sim_world import SimHost, SimWorld
from .proxy_controls import ProxyControls
from .proxy_run import ProxyRun

OWNER, READING, HOLDING = "owner", "reading", "holding"
"""Targets of faults that are resolved when the fault begins."""

_SETTLE_S = 6.0
"""Time after the faults in which proxies register again and readers return."""


class ProxyPlanRun(ProxyRun):
    """A run of a plan whose producers and readers use proxies. The plan seeds its settings."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        random = Random(f"{plan.seed} settings")
        config = ProxyConfig(
            session_ttl_ms=random.choice((1_000, 3_000)),
            acquire_ms_max=2_000,
            balance_ms=random.choice((500, 2_000)),
            balance_stay_ms=0,
        )
        super().__init__(world, plan, read_proxies=1, thin_readers=1, config=config)
        self._targets = world.random_of("targets of proxy faults")
        self.controls = self.cluster.proxies = ProxyControls(self)
        self.owners_at_once = 0
        """Number of faults at whose beginning two proxies believed that they own the stream."""

    async def play(self) -> None:
        """Run all phases of the plan."""
        await self.play_script(self._inject_faults)

    async def _inject_faults(self, _: ProxyRun) -> None:
        self.controls.start()
        for fault in self.plan.faults:
            self.world.later(fault.at_ms / 1000, partial(self._begin, fault))
        ends = [fault.at_ms + fault.lasts_ms for fault in self.plan.faults]
        await asyncio.sleep(max([self.plan.lasts_ms, *ends]) / 1000 + 0.001)
        self.heal()
        await asyncio.sleep(_SETTLE_S)

    def _begin(self, fault: Fault) -> None:
        self.owners_at_once += len(self.owners()) > 1
        hosts: list[SimHost] = []
        if fault.target == OWNER:
            hosts = self.owners() or self.proxy_hosts
        elif fault.target == READING:
            hosts = self.reading() or self.read_hosts
        elif fault.target == HOLDING:
            hosts = self.holding() or self.proxy_hosts
        if hosts:
            fault = replace(fault, target=self._targets.choice(hosts).name)
        begin(self.cluster, fault)

    def fill_result(self, result: RunResult) -> None:
        """Fill in the counters and the coverage of a result."""
        super().fill_result(result)
        result.states["two owners at once"] = self.owners_at_once
        result.states["stream claims"] = sum(
            commit.data is not None
            for commit in self.world.metadata.tree.history
            if commit.path.startswith("/rhumbline/owners/")
        )
