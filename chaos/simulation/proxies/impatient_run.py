"""A run of the plan ``impatient-clients``: producers give up while the stream changes its owner."""

from random import Random

from ..seed_run import RunPlan
from ..world.sim_world import SimWorld
from .proxy_plan_run import ProxyPlanRun

_TIMEOUTS_MS = (100, 250, 700)
"""All are less than another proxy needs to take over the stream of one that failed."""


class ImpatientRun(ProxyPlanRun):
    """A run of ``proxies`` in which appends end without a position and must say why."""

    def __init__(self, world: SimWorld, plan: RunPlan) -> None:
        super().__init__(world, plan)
        self.thin.timeout_ms = Random(f"{plan.seed} timeout").choice(_TIMEOUTS_MS)
