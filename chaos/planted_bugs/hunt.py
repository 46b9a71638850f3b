"""Runs seeds of a plan until the checker finds something: ``-O -m ...hunt PLAN FIRST COUNT``.

Runs in a process of its own, in a copy of the package. With ``-O`` the assertions of the production
code are off: what is found is found by the checker. A line of JSON for each seed that failed in any
way, and for how far it is.
"""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from ..simulation.seed_run import run_plan
from ..simulation.seed_runner import PLANS

SEED_S_MAX = 30
"""CPU seconds for one seed; a mutation may make a run endless."""

BY_ACCIDENT = ("CRASH", "ENDLESS")
"""What is not the checker's: an exception in the code, a run without end."""


class _EndlessError(Exception):
    """The seed took too long."""


def _on_alarm(*_: object) -> None:
    raise _EndlessError


def is_find(name: str, counts: Sequence[str]) -> bool:
    """Whether an invariant's violation is the checker's find of a bug (``counts``: of these)."""
    return name in counts if counts else name not in BY_ACCIDENT


def hunt(plan: str, first: int, count: int, counts: list[str]) -> None:
    """Prints what each seed came to, and stops at the first that the checker found."""
    signal.signal(signal.SIGPROF, _on_alarm)
    started = time.monotonic()
    for done, seed in enumerate(range(first, first + count), 1):
        signal.setitimer(signal.ITIMER_PROF, SEED_S_MAX)
        try:
            found = [(one.id, one.text) for one in run_plan(PLANS[plan](seed)).violations]
        except _EndlessError:
            found = [("ENDLESS", f"no end after {SEED_S_MAX} s")]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"seeds": done, "seconds": time.monotonic() - started}), flush=True)
        if found:
            print(json.dumps({"seed": seed, "found": found}), flush=True)
        if any(is_find(name, counts) for name, _ in found):
            break


if __name__ == "__main__":
    gc.freeze()
    hunt(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    sys.stdout.flush()
    os._exit(0)
