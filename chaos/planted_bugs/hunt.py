"""Runs seeds of a plan until the checker finds a violation: ``-O -m ...hunt PLAN FIRST COUNT``.

The plan ``everything`` divides the time over all plans, as ``make sim-many`` does. Times are CPU
times, so that other load on the machine does not change them.

It runs in its own process, in a copy of the package. With ``-O`` the assertions of the production
code are disabled, so only the checker can find a bug. It prints a line of JSON after each seed, and
another one for each seed that failed in any way.
"""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from ..simulation.seed_run import run_plan
from ..simulation.seed_runner import PLANS, seeds_by_time

SEED_S_MAX = 30
"""CPU seconds for one seed; a planted bug may keep a run from ending."""

BY_ACCIDENT = ("CRASH", "ENDLESS")
"""Failures that the checker did not find: an exception in the code, a run that does not end."""


class _EndlessError(Exception):
    """The seed took more than ``SEED_S_MAX`` CPU seconds."""


def _on_alarm(*_: object) -> None:
    raise _EndlessError


def is_find(name: str, counts: Sequence[str]) -> bool:
    """Return whether a violation counts as finding the bug; ``counts`` may limit the invariants."""
    return name in counts if counts else name not in BY_ACCIDENT


def hunt(plan: str, first: int, count: int, counts: list[str]) -> None:
    """Print the result of each seed, and stop at the first one in which the bug is found."""
    signal.signal(signal.SIGPROF, _on_alarm)
    started = time.process_time()
    times = seeds_by_time(plan, first=first)
    for done in range(1, count + 1):
        batch = times.take(0)
        assert batch is not None, "the seeds are endless"
        name, [seed] = batch
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SEED_S_MAX)
        try:
            result = run_plan(PLANS[name](seed))
            found = [(violation.id, violation.text) for violation in result.violations]
            situations = result.situations
        except _EndlessError:
            situations = ()
            found = [("ENDLESS", f"did not end within {SEED_S_MAX} CPU seconds")]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        times.finished(name, time.process_time() - begun, situations)
        print(json.dumps({"seeds": done, "seconds": time.process_time() - started}), flush=True)
        if found:
            print(json.dumps({"plan": name, "seed": seed, "found": found}), flush=True)
        if any(is_find(invariant, counts) for invariant, _ in found):
            break


if __name__ == "__main__":
    gc.freeze()
    hunt(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    sys.stdout.flush()
    os._exit(0)
