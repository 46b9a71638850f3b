"""Runs ``python -m rhumbline.chaos.planted_bugs [NAME ...]``: does the checker find each bug?"""

import argparse
import sys
from pathlib import Path

from .page import page
from .patch import names
from .runner import NONE, SECONDS_MAX, SEEDS_MAX, Budget, HuntResult, hunt_all


def main() -> int:
    """0: each was found, and nothing in the unchanged package; 1: not."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.chaos.planted_bugs")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, if none; {NONE}: no bug")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, for each")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="at most, for each")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--jobs", type=int, default=0, help="processes (0: one a core)")
    parser.add_argument("--plan", help="instead of the mutation's own")
    parser.add_argument("--page", type=Path, help="write the table of all into this file")
    options = parser.parse_args()
    budget = Budget(options.seeds, options.seconds, options.seed, options.jobs, options.plan, tell)
    outcomes = hunt_all(options.names or [*names(), NONE], budget)
    if options.page is not None:
        options.page.write_text(page(outcomes, budget))
    right = [outcome for outcome in outcomes if outcome.is_found == (outcome.name != NONE)]
    print(f"{len(right)} of {len(outcomes)} are as they should be")
    return 0 if len(right) == len(outcomes) else 1


def tell(outcome: HuntResult) -> None:
    """One line, and an example."""
    if outcome.is_found:
        how = f"found by {', '.join(outcome.found_by)} in seed {outcome.seed}"
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
