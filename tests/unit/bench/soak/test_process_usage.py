"""The use of this process is measured."""

import mmap
import os
from pathlib import Path

from rhumbline.bench.soak.process_usage import usage_of


def test_memory_and_descriptors_of_a_process_are_read() -> None:
    before = usage_of(os.getpid())
    assert before is not None and before.memory > 1 << 20
    # New pages of the system: the heap may reuse pages that earlier tests have freed.
    with mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        for start in range(0, len(held), mmap.PAGESIZE):
            held[start] = 1
        with Path("/dev/null").open("rb"), Path("/dev/null").open("rb"):
            after = usage_of(os.getpid())
    assert after is not None
    assert after.descriptors >= before.descriptors + 2
    assert after.memory >= before.memory + (24 << 20)
    assert usage_of(2**22 + 1) is None, "there is no such process"
