"""A lock between the processes of tests that run in parallel."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created if it does not exist."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
