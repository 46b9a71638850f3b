"""The use of this process and of a folder is measured."""

import os
from pathlib import Path

from rhumbline.bench.soak.process_usage import disk_bytes, usage_of


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


def test_the_blocks_of_all_files_below_a_folder_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(bytes(100_000))
    (tmp_path / "two").write_bytes(bytes(1))
    assert 100_000 <= disk_bytes(tmp_path) < 200_000
