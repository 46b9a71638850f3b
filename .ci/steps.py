"""Runs make targets one after another and prints the time that each took.

``types+tests`` runs both at a time: the first one at a lower priority, and its output follows that
of the last one. A failed step does not stop the later ones, except for setup, so that one run shows
every fault. The exit code is 1 if any step failed.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO


def run(step: str, output: IO[bytes] | None = None) -> tuple[bool, float]:
    """Run one target; return True if it passed, and its duration in seconds.

    With ``output`` the target has a lower priority and writes there.
    """
    command = ["make", "--no-print-directory", step]
    start_s = time.monotonic()
    if output is None:
        print(f"\n=== make {step}", flush=True)
        done = subprocess.run(command, check=False)
    else:
        done = subprocess.run(
            ["nice", *command], stdout=output, stderr=subprocess.STDOUT, check=False
        )
    return done.returncode == 0, time.monotonic() - start_s


def run_at_once(steps: list[str]) -> dict[str, tuple[bool, float]]:
    """Run targets at the same time; return the result of each, as ``run`` does."""
    *others, last = steps
    with ThreadPoolExecutor() as pool, ExitStack() as files:
        outputs = {step: files.enter_context(TemporaryFile()) for step in others}
        beside = {step: pool.submit(run, step, output) for step, output in outputs.items()}
        results = {last: run(last)}
        for step, output in outputs.items():
            results[step] = beside[step].result()
            output.seek(0)
            print(f"\n=== make {step}", flush=True)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
    return results


def main(steps: list[str]) -> int:
    """Run `steps` and return the exit code."""
    results: dict[str, tuple[bool, float]] = {}
    for step in steps:
        results |= run_at_once(step.split("+"))
        if step.startswith("setup") and not results[step][0]:
            break
    print("\n=== time by step", flush=True)
    for step, (passed, spent_s) in results.items():
        print(f"{spent_s:8.1f} s  {'passed' if passed else 'FAILED'}  {step}", flush=True)
    return 0 if all(passed for passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
