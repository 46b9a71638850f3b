"""The space that a folder takes is measured while its files come and go."""

import threading
from pathlib import Path

from rhumbline.bench.harness.disk_usage import disk_bytes


def test_the_blocks_of_all_files_below_a_folder_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(bytes(100_000))
    (tmp_path / "two").write_bytes(bytes(1))
    assert 100_000 <= disk_bytes(tmp_path) < 200_000


def test_files_may_vanish_while_a_folder_is_measured(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(bytes(100_000))
    ended = threading.Event()

    def replace_files() -> None:
        while not ended.is_set():
            for number in range(20):
                (tmp_path / f"reserve.{number}").touch()
            for number in range(20):
                (tmp_path / f"reserve.{number}").unlink()

    replacer = threading.Thread(target=replace_files)
    replacer.start()
    try:
        sizes = {disk_bytes(tmp_path) for _ in range(200)}
    finally:
        ended.set()
        replacer.join(timeout=10)
    assert len(sizes) == 1, "only empty files came and went"
