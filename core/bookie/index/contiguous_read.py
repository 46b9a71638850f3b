"""Contiguous reads: one disk read for a run of consecutive entries that are close together.

The entries are views of the bytes read; every record is verified as in a single read. A run spans
at most ``SPAN_BYTES_MAX``, or its first entry, and has at most ``RUN_ENTRIES_MAX`` entries. Entries
are copied if the views would keep more than twice their own size in memory.
"""

from collections.abc import Callable, Sequence

from ...protocol.errors import CorruptionError
from ...wire.entry import ENTRY_HEADER
from ..log.log_format import RECORD_HEADER_BYTES, record_in
from .ledger_entries import Location

SPAN_BYTES_MAX = 1 << 20
RUN_ENTRIES_MAX = 256
"""Verifying that many entries takes the event loop less than a millisecond."""
GAP_BYTES_MAX = 64 << 10
"""Maximum gap in a run: entries of other ledgers, state records, group headers.

Reading a gap of this size takes no longer than starting another read.
"""


def run_from(
    first: Location, following: Callable[[int], Location | None], count_max: int, bytes_max: int
) -> list[Location]:
    """Return ``first`` and the locations ``following(1)``, ``following(2)``, ... close after it.

    The run has at most ``count_max`` entries and ``bytes_max`` bytes, and is within the limits of
    this module. It never crosses files, whose positions are far apart.
    """
    run = [first]
    room = bytes_max - first.length
    end = first.position + first.length
    span_end = first.position + SPAN_BYTES_MAX
    while len(run) < min(count_max, RUN_ENTRIES_MAX):
        location = following(len(run))
        if location is None or not 0 <= location.position - end <= GAP_BYTES_MAX:
            break
        room -= location.length
        end = location.position + location.length
        if room < 0 or end > span_end:
            break
        run.append(location)
    return run


def span_of(run: Sequence[Location]) -> tuple[int, int]:
    """Return the start and end positions of a run's records, including their headers."""
    return run[0].position - RECORD_HEADER_BYTES, run[-1].position + run[-1].length


def entries_in(
    data: bytes, ledger_id: int, first: int, run: Sequence[Location]
) -> list[bytes | memoryview]:
    """Return the entries of a run from its bytes, up to the first bad one.

    Raises CorruptionError if the first entry is bad.
    """
    start, end = span_of(run)
    view = memoryview(data)
    entries: list[memoryview] = []
    try:
        for entry_id, location in enumerate(run, first):
            at = location.position - RECORD_HEADER_BYTES - start
            entry = record_in(view, at, location.length)
            if ENTRY_HEADER.unpack_from(entry)[:2] != (ledger_id, entry_id):
                raise CorruptionError(f"found another entry in place of {ledger_id}:{entry_id}")
            entries.append(entry)
    except CorruptionError:
        if not entries:
            raise
    is_dense = 2 * sum(map(len, entries)) >= end - start
    return list(entries) if is_dense else list(map(bytes, entries))
