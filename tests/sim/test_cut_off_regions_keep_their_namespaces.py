"""A region that is cut off from the global metadata store opens and rolls its own streams."""

from dataclasses import replace

from rhumbline.chaos.checker.history import AppendOutcome
from rhumbline.chaos.simulation.cluster import Fault
from rhumbline.chaos.simulation.plans.regions.regional import REGION, regional
from rhumbline.chaos.simulation.seed_run import TIME_LIMIT_S, RunPlan, SeedRun
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.core.protocol.quorum import Quorum

CUT_AT_MS, CUT_MS = 3_000, 14_000
APP = f"app-{REGION}"


def plan_of(seed: int) -> RunPlan:
    """Return a plan with one long cut, in which writers are replaced and segments rolled."""
    plan = regional(seed)
    settings = plan.settings
    policy = replace(settings.policy, quorum=Quorum(3, 3, 2, 1), roll_ms=1_000, roll_bytes=1 << 20)
    return replace(
        plan,
        run=None,
        settings=replace(settings, policy=policy),
        habits=replace(
            plan.habits, pause_ms=100, burst_max=1, session_appends_max=20, padding_bytes_max=20
        ),
        faults=(Fault("cut-region", REGION, CUT_AT_MS, CUT_MS),),
        writers=((0, APP),),
        readers=(APP,),
        repairs=(REGION,),
        appends_max=10_000,
    )


def test_the_stream_is_used_during_the_cut_as_before(seed: int) -> None:
    plan = plan_of(seed)
    with SimWorld(plan.seed, plan.topology) as world:
        run = SeedRun(world, plan)
        world.run(run.play(), time_limit_s=TIME_LIMIT_S)
        assert run.check() == []
        [(begun_ms, _)] = run.cluster.faults_begun
        begun_ms += 1_000  # what is in flight arrives
        ended_ms = begun_ms + CUT_MS - 1_000
        acked = sorted(
            append.ended_ms
            for append in run.history.appends.values()
            if append.outcome is AppendOutcome.OK and append.ended_ms is not None
        )
        during = [at_ms for at_ms in acked if begun_ms < at_ms < ended_ms]
        assert len(during) >= 50
        longest_ms = max(
            after - before
            for before, after in zip([begun_ms, *during], [*during, ended_ms], strict=True)
        )
        segments = run._segment_versions().values()
        opened = [seen[0].at_ms for seen in segments if begun_ms < seen[0].at_ms < ended_ms]
        print(f"{len(during)} appends and {len(opened)} new segments, {longest_ms:.0f} ms apart")
        assert len(opened) >= 8, "sessions end after 20 appends, and segments after a second"
        assert longest_ms < 2_000
