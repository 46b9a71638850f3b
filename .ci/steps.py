"""Runs make targets one after another, all of them, and prints how long each took.

Exits 1 if any of them failed. Later steps run also after a failure: one run shows every fault.
"""

import subprocess
import sys
import time


def run(step: str) -> tuple[bool, float]:
    """Run one target; returns whether it passed, and its seconds."""
    print(f"\n=== make {step}", flush=True)
    start_s = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", step], check=False)
    return done.returncode == 0, time.monotonic() - start_s


def main(steps: list[str]) -> int:
    """Run `steps`; returns the exit code."""
    results = {}
    for step in steps:
        results[step] = run(step)
        if step.startswith("setup") and not results[step][0]:
            break
    print("\n=== time by step", flush=True)
    for step, (passed, spent_s) in results.items():
        print(f"{spent_s:8.1f} s  {'passed' if passed else 'FAILED'}  {step}", flush=True)
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
