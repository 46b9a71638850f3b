"""Measures the disk space that folders take."""

from pathlib import Path


def disk_bytes(folder: Path) -> int:
    """Return the disk space of all files below a folder, in bytes. Files may vanish meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512 if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
