"""Runs make targets one after another and prints the time that each took.

A failed step does not stop the later ones, except for setup, so that one run shows every fault. The
exit code is 1 if any step failed.
"""

import subprocess
import sys
import time


def run(step: str) -> tuple[bool, float]:
    """Run one target; return True if it passed, and its duration in seconds."""
    print(f"\n=== make {step}", flush=True)
    start_s = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", step], check=False)
    return done.returncode == 0, time.monotonic() - start_s


def main(steps: list[str]) -> int:
    """Run `steps` and return the exit code."""
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
