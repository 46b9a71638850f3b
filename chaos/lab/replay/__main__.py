"""``python -m rhumbline.chaos.lab.replay KIND NAME SEED``: print a replay as lines of JSON.

``{"seed": N}`` before each seed, and at the end ``{"replay": ...}`` or ``{"error": ...}``. The
console starts it as a process of its own, with limits on processor time and memory.
"""

import gc
import json
import os
import resource
import sys

from ....core.protocol.errors import RhumblineError
from ...planted_bugs.patch import PatchError
from .replay import ReplayOrder, replay
from .replay_program import CPU_S_MAX, MEMORY_BYTES_MAX

_NICENESS = 10


def main(kind: str, name: str, seed: str) -> None:
    """Run one order within the limits."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    try:
        found = replay(ReplayOrder(kind, name, int(seed)), lambda number: _print("seed", number))
    except (RhumblineError, PatchError, MemoryError, ImportError) as error:
        _print("error", f"{type(error).__name__}: {error}")
    else:
        _print("replay", found)


def _print(key: str, value: object) -> None:
    print(json.dumps({key: value}, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    gc.freeze()
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # skips finalizers of tasks that killed processes left behind
