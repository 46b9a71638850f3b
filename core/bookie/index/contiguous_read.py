"""Runs: consecutive entries of a ledger that stand close together in one file, read with one call.

What a run brings is looked at in place; every record is verified as if it had been read alone.
Bounds: a run spans at most ``SPAN_BYTES_MAX`` (or its first entry), and views never keep more than
twice what they show, so that who holds entries knows what he holds.
"""

from collections.abc import Callable, Sequence

from ...protocol.errors import CorruptionError
from ...wire.entry import ENTRY_HEADER
from ..log.log_format import RECORD_HEADER_BYTES, record_in
from .ledger_entries import Location

SPAN_BYTES_MAX = 4 << 20
GAP_BYTES_MAX = 4096
"""Between two entries of a run: other ledgers' entries, state records, headers of groups."""


def run_from(
    first: Location, following: Callable[[int], Location | None], count_max: int, bytes_max: int
) -> list[Location]:
    """``first`` and those that ``following(1)``, ``following(2)``, ... find close behind it.

    At most ``count_max``, and ``bytes_max`` in all. Positions of different files are far apart.
    """
    run = [first]
    room = bytes_max - first.length
    end = first.position + first.length
    span_end = first.position + SPAN_BYTES_MAX
    while len(run) < count_max:
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
    """(start, end) of the records of a run, headers included, as positions."""
    return run[0].position - RECORD_HEADER_BYTES, run[-1].position + run[-1].length


def entries_in(
    data: bytes, ledger_id: int, first: int, run: Sequence[Location]
) -> list[bytes | memoryview]:
    """The entries of a run from its bytes, up to the first one that is bad.

    Raises CorruptionError when that is the first one of all.
    """
    start, end = span_of(run)
    view = memoryview(data)
    entries: list[memoryview] = []
    try:
        for entry_id, location in enumerate(run, first):
            at = location.position - RECORD_HEADER_BYTES - start
            entry = record_in(view, at, location.length)
            if ENTRY_HEADER.unpack_from(entry)[:2] != (ledger_id, entry_id):
                raise CorruptionError(f"another entry stands where {ledger_id}:{entry_id} belongs")
            entries.append(entry)
    except CorruptionError:
        if not entries:
            raise
    is_dense = 2 * sum(map(len, entries)) >= end - start
    return list(entries) if is_dense else list(map(bytes, entries))
