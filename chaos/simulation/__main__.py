"""``python -m rhumbline.chaos.simulation``: replay one seed with its trace, or run many seeds."""

import argparse
import gc
import os
import sys
from collections import Counter
from pathlib import Path

from ..checker.run_record import INVARIANTS
from .faults.faults import KINDS
from .seed_run import LIVENESS, STATES, RunPlan, RunResult, run_plan
from .seed_runner import (
    EVERYTHING,
    PLANS,
    SHARES,
    SeedResult,
    SeedTotals,
    Speed,
    measure_speed,
    run_many,
)
from .seeds_table import write_table
from .shrink import only, replay_command, shrink


def main() -> int:
    """Run the command line. Returns 0 if every invariant held, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m rhumbline.chaos.simulation", description=__doc__
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed to run, or the first seed with --many"
    )
    parser.add_argument(
        "--plan",
        choices=sorted([*PLANS, EVERYTHING]),
        default="swarm",
        help=f"{EVERYTHING}: divide the time over all plans (with --many)",
    )
    parser.add_argument("--keep", help="keep only these faults of the plan, e.g. 0,3 (-: none)")
    parser.add_argument("--quiet", action="store_true", help="print the result without the trace")
    parser.add_argument(
        "--brief", action="store_true", help="leave frames and requests out of the trace"
    )
    parser.add_argument("--many", type=float, metavar="MINUTES", help="run seeds for this long")
    parser.add_argument(
        "--shares",
        type=_shares,
        default={},
        metavar="PLAN=SHARE,...",
        help=f"shares of the time of {EVERYTHING}, e.g. races=3,damage=0 (default: about 1 each); "
        "half of the time follows what the plans find",
    )
    parser.add_argument(
        "--page", type=Path, help="replace the table of seeds per hour in this file (with --many)"
    )
    parser.add_argument("--jobs", type=int, default=0, help="number of processes (0: one per core)")
    parser.add_argument(
        "--shrink", action="store_true", help="remove faults while the seed still fails"
    )
    options = parser.parse_args()
    if options.many is not None:
        shares = {**SHARES, **options.shares}
        total = _many(options.plan, options.seed, options.many, options.jobs, shares)
        if options.page is not None:
            write_table(options.page, total)
        return 1 if total.failed else 0
    if options.plan == EVERYTHING:
        parser.error(f"{EVERYTHING} has no seeds of its own; use it with --many")
    plan = _kept(PLANS[options.plan](options.seed), options.keep)
    _print_plan(plan)
    on_line = None if options.quiet or options.shrink else print
    result = run_plan(plan, on_line=None if options.brief else on_line)
    if options.brief and on_line is not None:
        print("\n".join(result.lines))
    if options.shrink and not result.is_good:
        _print_shrunk(options.plan, options.seed, plan, result)
    _print_result(result)
    return 0 if result.is_good else 1


def _shares(text: str) -> dict[str, float]:
    """Parse ``races=3,damage=0.5``. Raises ArgumentTypeError."""
    shares: dict[str, float] = {}
    for part in text.split(",") if text else ():
        plan, _, share = part.partition("=")
        if plan not in PLANS:
            raise argparse.ArgumentTypeError(f"unknown plan {plan!r}")
        try:
            shares[plan] = float(share)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{share!r} is not a number") from error
        if shares[plan] < 0:
            raise argparse.ArgumentTypeError(f"the share of {plan} is below 0")
    return shares


def _kept(plan: RunPlan, keep: str | None) -> RunPlan:
    if keep is None:
        return plan
    return only(plan, () if keep == "-" else tuple(int(part) for part in keep.split(",")))


def _print_plan(plan: RunPlan) -> None:
    settings = plan.settings
    print(f"plan {plan.seed}: quorum {settings.policy.quorum}, bookies {plan.bookies_by_region}")
    print(f"  {plan.topology}")
    print(f"  {settings.policy}\n  {settings.ledger}\n  {settings.writer}\n  {plan.habits}")
    print(f"  writers {plan.writers}, readers {plan.readers}")
    for index, fault in enumerate(plan.faults):
        print(f"  fault {index}: {fault}")


def _print_result(result: RunResult) -> None:
    print(
        f"{result.virtual_s:.1f} s of virtual time, {result.events} events, "
        f"{result.messages} messages, appends {result.outcomes}, trace {result.digest}"
    )
    for name, number in result.states.items():
        print(f"  {name}: {number}")
    print(f"  orphaned ledgers (named by no segment): {result.orphans}")
    for violation in result.violations:
        print(f"VIOLATION {violation}")
    print("no invariant was violated" if result.is_good else "an invariant was violated")


def _print_shrunk(name: str, seed: int, plan: RunPlan, result: RunResult) -> None:
    kept = shrink(plan, result.violations[0].id)
    print(f"still fails with {len(kept)} of {len(plan.faults)} faults:")
    for index in kept:
        print(f"  {plan.faults[index]}")
    print(f"  {replay_command(name, seed, kept)}")


def _many(plan: str, first: int, minutes: float, jobs: int, shares: dict[str, float]) -> SeedTotals:
    def on_run(run: SeedResult) -> None:
        for violation in run.violations[:1]:
            print(f"{run.plan} {run.seed}: {violation.splitlines()[0]}")
            print(f"  {run.replay}")
            for fault in run.schedule:
                print(f"    {fault}", flush=True)

    total = run_many(plan, first=first, minutes=minutes, jobs=jobs, on_run=on_run, shares=shares)
    _print_totals(total)
    _print_speed(measure_speed())
    return total


def _print_totals(total: SeedTotals) -> None:
    faults: Counter[str] = total.faults
    minute = total.real_s / 60
    print(
        f"{total.seeds} seeds, {len(total.failed)} failed; "
        f"{total.virtual_s / 3600:.2f} simulated hours in {minute:.1f} minutes "
        f"({total.virtual_s / total.real_s:.0f} times real time on all cores)"
    )
    _print_plans(total)
    print(
        f"per real minute: {total.messages / minute:.0f} messages, "
        f"{total.events / minute:.0f} events, {faults.total() / minute:.0f} faults, "
        f"{total.acked / minute:.0f} acks"
    )
    print(
        f"per real second: {total.virtual_s / total.real_s:.0f} simulated seconds, "
        f"{total.events / total.real_s:.0f} events"
    )
    print(
        f"invariants: {len(INVARIANTS)} ({', '.join(INVARIANTS)}), evaluated {total.checks} times; "
        f"after the faults also {', '.join(LIVENESS)}"
    )
    print(f"orphaned ledgers, named by no segment (not a violation): {total.orphans}")
    print("appends:", ", ".join(f"{name} {number}" for name, number in total.outcomes.items()))
    print("faults:", ", ".join(f"{name} {number}" for name, number in faults.most_common()))
    states = sorted(total.states.items())
    print("states:", ", ".join(f"{name} {number}" for name, number in states))
    print(f"situations of state machines: {total.situations}")
    missing = [name for name in (*STATES, *KINDS) if not (total.states | faults)[name]]
    seen = sum(1 for name in STATES if total.states[name])
    print(f"seen: {seen} of {len(STATES)} states of recovery and change", end="")
    print(f", {len(faults)} of {len(KINDS)} kinds of faults", end="")
    print(f"; never: {', '.join(missing)}" if missing else "")


def _print_plans(total: SeedTotals) -> None:
    spent_s = sum(plan.seconds for plan in total.plans.values()) or 1.0
    print("plan         share  seeds failed  s/seed  simulated h     acks   faults situations")
    for name, plan in sorted(total.plans.items()):
        print(
            f"{name:<12} {plan.seconds / spent_s:4.0%} {plan.seeds:6} {plan.failed:6} "
            f"{plan.seconds / plan.seeds:7.2f} {plan.virtual_s / 3600:12.2f} "
            f"{plan.acked:8} {plan.faults:8} {plan.new_situations:10}"
        )


def _print_speed(speed: Speed) -> None:
    print(
        f"one process at {speed.appends / speed.virtual_s:.0f} appends per second, all checks on: "
        f"{speed.virtual_s / speed.real_s:.0f} simulated seconds per real second, "
        f"{speed.virtual_s / speed.cpu_s:.0f} per CPU second"
    )


if __name__ == "__main__":
    gc.freeze()
    code = main()
    sys.stdout.flush()
    os._exit(code)  # skips finalizers of tasks that killed processes left behind
