"""Counts the operations of a bookie by kind and result, and measures how long they took.

A plain add is not counted by itself: a commit group counts all adds of a connection at once, with
the time since the first of them.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from ...protocol.errors import (
    DiskFullError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyError,
    RefusedError,
    RhumblineError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownStateError,
)
from ...runtime.histogram import Histogram

ADD = "add"
READ = "read"
BATCH_READ = "batch_read"
FENCE = "fence"
"""A read that fences the ledger first."""
WRITE_LAC = "write_lac"
READ_LAC = "read_lac"
LIST_ENTRIES = "list_entries"
POLL = "poll"
"""A long poll; measured from when it is woken."""
KINDS = (ADD, READ, BATCH_READ, POLL, FENCE, WRITE_LAC, READ_LAC, LIST_ENTRIES)

OK = "ok"
FAILED = "failed"
"""An error that is not a proper answer, such as that of a failed disk or of damaged data."""
_RESULT_OF: tuple[tuple[type[RhumblineError], str], ...] = (
    (NoSuchEntryError, "not_found"),
    (NoSuchLedgerError, "not_found"),
    (LedgerFencedError, "fenced"),
    (ReadOnlyError, "read_only"),
    (DiskFullError, "read_only"),
    (TooManyRequestsError, "too_many"),
    (UnknownStateError, "unknown"),
    (UnauthorizedError, "unauthorized"),
    (RefusedError, "invalid"),
)
RESULTS = (OK, *dict.fromkeys(result for _, result in _RESULT_OF), FAILED)
_STEPS = 4  # buckets per factor of two; only the exported bounds matter here


def result_of(error: RhumblineError | None) -> str:
    """Return the result that is counted for the outcome of an operation."""
    if error is None:
        return OK
    return next((result for kind, result in _RESULT_OF if isinstance(error, kind)), FAILED)


class OperationMeter:
    """The counters of one bookie."""

    __slots__ = ("_counts", "_durations", "now")

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.now = now or asyncio.get_running_loop().time
        """Returns the event loop's time."""
        self._counts = {kind: dict.fromkeys(RESULTS, 0) for kind in KINDS}
        self._durations = {kind: Histogram(steps=_STEPS) for kind in KINDS}

    def done(
        self, kind: str, began: float, error: RhumblineError | None = None, count: int = 1
    ) -> None:
        """Count ``count`` operations that began at ``began`` (the event loop's time) and ended."""
        self._durations[kind].add(self.now() - began, count)
        self._counts[kind][OK if error is None else result_of(error)] += count

    def statistics(self) -> dict[str, Any]:
        """Return counts by kind and result, and durations by kind."""
        return {
            "operations": {kind: dict(counts) for kind, counts in self._counts.items()},
            "operation": {kind: found.summary() for kind, found in self._durations.items()},
        }
