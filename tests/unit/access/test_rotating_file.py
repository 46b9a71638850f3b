"""A file of lines that is renamed by size, alone and shared by two writers."""

import os
from pathlib import Path

import pytest

from rhumbline.access.rotating_file import RotatingFile


def opened(path: Path, bytes_max: int = 100, kept: int = 2) -> RotatingFile:
    """Open a small file."""
    return RotatingFile(path, bytes_max=bytes_max, kept=kept, syncs=True)


def test_a_large_file_is_renamed_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = opened(path)
    for number in range(8):
        file.append(b"%059d\n" % number)
    file.close()
    names = sorted(found.name for found in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    numbers = [int((tmp_path / name).read_bytes()) for name in names]
    assert numbers == [7, 6, 5]
    assert path.stat().st_mode & 0o777 == 0o600


def test_two_writers_share_a_file_and_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [opened(path, kept=100), opened(path, kept=100)]
    for number in range(40):
        writers[number % 2].append(b"%029d\n" % number)
    for writer in writers:
        writer.close()
    lines = b"".join(found.read_bytes() for found in tmp_path.iterdir()).splitlines()
    assert sorted(map(int, lines)) == list(range(40))


def test_a_file_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = opened(path)
    path.unlink()
    file.append(b"line\n")
    assert path.read_bytes() == b"line\n"
    file.close()


def test_a_torn_line_is_ended_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    file = opened(path)
    write = os.write

    def torn(fd: int, data: bytes) -> int:
        if len(data) > 3:
            return write(fd, data[:3])
        raise OSError(28, "no space")

    monkeypatch.setattr(os, "write", torn)
    with pytest.raises(OSError):
        file.append(b"first\n")
    monkeypatch.undo()
    file.append(b"second\n")
    file.close()
    assert path.read_bytes() == b"fir\nsecond\n"
