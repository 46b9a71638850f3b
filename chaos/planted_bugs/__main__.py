"""``python -m rhumbline.chaos.planted_bugs [NAME ...]``: hunts planted bugs with the simulator."""

import argparse
import sys
from pathlib import Path

from .page import page
from .patch import names
from .runner import NONE, SECONDS_MAX, SEEDS_MAX, Budget, HuntResult, hunt_all


def main() -> int:
    """Run the command line. Returns 0 if each bug was found and the unchanged package is clean."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.chaos.planted_bugs")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"default: all; {NONE}: the unchanged package"
    )
    parser.add_argument(
        "--seeds", type=int, default=SEEDS_MAX, help="maximum number of seeds for each bug"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS_MAX, help="time limit for each bug"
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=0, help="number of processes (0: one per core)")
    parser.add_argument("--plan", help="use this plan instead of the one that the bug names")
    parser.add_argument(
        "--page", type=Path, help="replace the rows of these bugs in the tables of this file"
    )
    options = parser.parse_args()
    budget = Budget(
        options.seeds, options.seconds, options.seed, options.jobs, options.plan, print_result
    )
    outcomes = hunt_all(options.names or [*names(), NONE], budget)
    if options.page is not None:
        old = options.page.read_text() if options.page.exists() else ""
        scopes, simulator = (
            options.page.with_name(name).read_text() for name in ("scopes.md", "simulator.md")
        )
        options.page.write_text(page(outcomes, budget, old, scopes=scopes, simulator=simulator))
    right = [outcome for outcome in outcomes if outcome.is_found == (outcome.name != NONE)]
    print(f"{len(right)} of {len(outcomes)} results are as expected")
    return 0 if len(right) == len(outcomes) else 1


def print_result(outcome: HuntResult) -> None:
    """Print one line for a result, and an example of a violation."""
    if outcome.is_found:
        how = (
            f"found by {', '.join(outcome.found_by)} in seed {outcome.seed} of {outcome.seed_plan}"
        )
    else:
        how = "NOT FOUND"
    print(
        f"{outcome.name:<18} {how} after {outcome.seeds} seeds of {outcome.plan}, "
        f"{outcome.seconds:.0f} s, {outcome.crashes} failed otherwise"
    )
    if outcome.text:
        print(f"    {outcome.text[:200]}")
    if outcome.errors:
        print(f"    {outcome.errors.strip()[-400:]}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
