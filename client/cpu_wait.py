"""The time for which this process has waited for a CPU, as Linux counts it."""

from pathlib import Path

_SCHEDSTAT = Path("/proc/self/schedstat")
"""CPU time, time on a run queue, and time slices of the main thread, in ns and a number."""
_NS = 1_000_000_000


def cpu_wait_seconds() -> float:
    """Return the time for which the main thread was ready to run and had no CPU.

    Always 0 where the operating system does not count it.
    """
    try:
        fields = _SCHEDSTAT.read_bytes().split()
        return int(fields[1]) / _NS
    except (OSError, ValueError, IndexError):
        return 0.0
