"""A run in which processes of two versions form one cluster."""

from ...checker.run_record import RunRecord
from ..seed_run import RESUME_S_MAX, RunPlan, RunResult, SeedRun
from ..world.sim_world import SimWorld
from .program import PAIRS
from .upgrade_controls import UpgradeControls


class UpgradeRun(SeedRun):
    """A run of ``upgrades``. ``older`` names the pair of programs, and ``end`` the last version."""

    def __init__(self, world: SimWorld, plan: RunPlan, *, older: str, end: str) -> None:
        super().__init__(world, plan)
        self._end = end
        self._controls = UpgradeControls(self.cluster, self.repairers, PAIRS[older])
        self.cluster.upgrades = self._controls

    async def play(self) -> None:
        """Start the operator, and run all phases."""
        self._controls.start()
        await super().play()

    async def _verify_end_state(self) -> None:
        await self._controls.finish(self._end, RESUME_S_MAX)
        await super()._verify_end_state()

    def record(self) -> RunRecord:
        """See SeedRun."""
        record = super().record()
        record.upgrades = self._controls.use
        return record

    def fill_result(self, result: RunResult) -> None:
        """See SeedRun."""
        super().fill_result(result)
        use = self._controls.use
        early = [rise for rise in use.rises if rise.at_ms < self.plan.lasts_ms]
        result.states["levels raised"] = len(use.rises)
        result.states["levels raised under faults"] = len(early)
        result.states["raises refused"] = use.refusals
        result.states["values in the new format"] = len(use.written)
        result.states["old programs refused"] = self._controls.refused_starts
