"""A failing plan is reduced to the faults that matter, with a command that replays it."""

from rhumbline.chaos.checker.run_record import Violation
from rhumbline.chaos.simulation.plans.swarm import swarm
from rhumbline.chaos.simulation.seed_run import RunPlan, RunResult
from rhumbline.chaos.simulation.seed_runner import PLANS
from rhumbline.chaos.simulation.shrink import only, replay_command, shrink


def plan_with_many_faults() -> RunPlan:
    return next(plan for plan in map(swarm, range(1, 100)) if len(plan.faults) >= 8)


def test_only_the_needed_faults_remain() -> None:
    plan = plan_with_many_faults()
    needed = {plan.faults[2], plan.faults[5]}

    def run(tried: RunPlan) -> RunResult:
        is_broken = needed <= set(tried.faults)
        return RunResult(tried, violations=[Violation("L1", "lost")] if is_broken else [])

    assert shrink(plan, "L1", run=run) == (2, 5)


def test_a_different_failure_does_not_count() -> None:
    plan = plan_with_many_faults()

    def run(tried: RunPlan) -> RunResult:
        return RunResult(tried, violations=[Violation("V7", "slow")])

    assert shrink(plan, "L1", run=run) == tuple(range(len(plan.faults)))


def test_replay_command_names_plan_seed_and_faults() -> None:
    assert replay_command("swarm", 7) == "make sim PLAN=swarm SEED=7"
    assert replay_command("swarm", 7, (2, 5)) == "make sim PLAN=swarm SEED=7 KEEP=2,5"
    assert replay_command("swarm", 7, ()) == "make sim PLAN=swarm SEED=7 KEEP=-"
    assert "swarm" in PLANS


def test_keeping_faults_changes_nothing_else_in_the_plan() -> None:
    plan = plan_with_many_faults()
    small = only(plan, (1, 3))
    assert small.faults == (plan.faults[1], plan.faults[3])
    assert (small.seed, small.writers, small.settings) == (plan.seed, plan.writers, plan.settings)
