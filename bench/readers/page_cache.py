"""Dropping files from the page cache of the operating system, and reading them from the disk."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_BLOCK_BYTES = 1 << 20


def drop_cached(directories: Sequence[Path]) -> None:
    """Drop the data files of the bookies in ``directories`` from the cache.

    Pages that are not on the disk yet stay.
    """
    drop_cached_files(_data_files(directories))


def drop_cached_files(paths: Iterable[Path]) -> None:
    """Ask the operating system to drop files from its cache. Pages not yet on the disk stay."""
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # compacted meanwhile
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def read_data_files(directories: Sequence[Path]) -> tuple[int, float]:
    """Read all data files of these bookies; return the number of bytes and the seconds."""
    size, started = 0, time.perf_counter()
    for path in _data_files(directories):
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                size += len(block)
    return size, time.perf_counter() - started


def _data_files(directories: Sequence[Path]) -> Iterator[Path]:
    for directory in directories:
        yield from sorted([*directory.rglob("*.log"), *directory.rglob("*.sorted")])
