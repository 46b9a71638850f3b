"""Reads what processes use from /proc."""

from pathlib import Path
from typing import NamedTuple


class ProcessUsage(NamedTuple):
    """The anonymous memory of a process in bytes, and its open descriptors."""

    memory: int
    descriptors: int


def usage_of(pid: int) -> ProcessUsage | None:
    """Return what a process uses; None if it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        lines = (folder / "status").read_text().splitlines()
        kib = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
        return ProcessUsage(kib << 10, sum(1 for _ in (folder / "fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return None
