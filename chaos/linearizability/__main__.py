"""``python -m rhumbline.chaos.linearizability``: has Porcupine judge simulated runs."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .verdicts import LINEARIZABLE, PLANS_USED, judge_histories, record_seeds


def main() -> int:
    """Run the command line. Returns 0 if every history is linearizable."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.chaos.linearizability")
    parser.add_argument("plans", nargs="*", metavar="PLAN", help=f"default: {' '.join(PLANS_USED)}")
    parser.add_argument("--operations", type=int, default=100_000, help="number of operations")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    begun = time.monotonic()
    histories = list(record_seeds(options.plans or PLANS_USED, options.operations, options.seed))
    ours = {f"{found.plan} {found.seed}": found.violations for found in histories}
    ran_s = time.monotonic() - begun
    print(f"{len(histories)} runs in {ran_s:.0f} s; Porcupine judges them", flush=True)
    begun = time.monotonic()
    kinds = Counter(operation["kind"] for found in histories for operation in found.operations)
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="rhumbline-porcupine-") as folder:
        for found in judge_histories(histories, Path(folder)):
            verdicts[found.verdict] += 1
            if found.verdict != LINEARIZABLE or ours[found.name]:
                invariants = ", ".join(ours[found.name]) or "no invariant"
                print(f"{found.name}: {found.verdict} {found.first} (our checker: {invariants})")
    counts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))
    print(f"{sum(kinds.values()):,} operations ({counts}) of {len(histories)} streams")
    print(f"verdicts in {time.monotonic() - begun:.1f} s: {dict(verdicts)}")
    return 0 if set(verdicts) == {LINEARIZABLE} else 1


if __name__ == "__main__":
    sys.exit(main())
