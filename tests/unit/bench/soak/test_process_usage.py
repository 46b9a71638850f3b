"""The use of this process is measured."""

import os
from pathlib import Path

from rhumbline.bench.soak.process_usage import usage_of


def test_memory_and_descriptors_of_a_process_are_read() -> None:
    before = usage_of(os.getpid())
    assert before is not None and before.memory > 1 << 20
    held = bytearray(os.urandom(32 << 20))
    with Path("/dev/null").open("rb"), Path("/dev/null").open("rb"):
        after = usage_of(os.getpid())
    assert after is not None
    assert after.descriptors >= before.descriptors + 2
    assert after.memory >= before.memory + (24 << 20), len(held)
    assert usage_of(2**22 + 1) is None, "there is no such process"
