"""A real file system of a few megabytes, which a test can fill."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FILLER = "filler"
_CHUNK = bytes(1 << 16)


@contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a tmpfs at ``directory`` until the block ends; skip the test if that is not permitted.

    The parent must be there.
    """
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except OSError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield directory
    finally:
        if directory.is_mount():
            unmount(directory)


def unmount(directory: Path) -> None:
    """Detach the disk; programs that have open files on it can still use these."""
    subprocess.run(["umount", "-l", str(directory)], timeout=10, check=True)


def fill_disk(directory: Path, left_bytes: int = 0) -> None:
    """Write a file until only ``left_bytes`` are free, rounded to pages."""
    with (directory / _FILLER).open("ab", buffering=0) as filler:
        while (room := free_bytes(directory) - left_bytes) > 0:
            try:
                filler.write(_CHUNK[:room])
            except OSError:
                return  # full


def free_disk(directory: Path) -> None:
    """Delete the file that fills the disk."""
    (directory / _FILLER).unlink(missing_ok=True)


def free_bytes(directory: Path) -> int:
    """Return the free space of the disk."""
    return shutil.disk_usage(directory).free
