"""Offline: reads every byte of a storage and says what is damaged. Changes nothing.

Needs no metadata store. The bookie must not run; the disk sees to that.
"""

from dataclasses import dataclass

from ..runtime.disk import Disk
from .files import LogFiles
from .identity import Identity, read_identity
from .index import IndexedEntry, MemoryIndex
from .opening import open_files, replay_sorted
from .replay import Damage


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """One ledger of a storage."""

    ledger_id: int
    entry_count: int
    last_entry_id: int
    lac: int
    is_fenced: bool
    is_in_limbo: bool


@dataclass(frozen=True, slots=True)
class StorageSummary:
    """What a storage holds. ``torn_bytes``: the unfinished end of the log, which is no damage."""

    identity: Identity
    ledgers: tuple[LedgerSummary, ...]
    entry_count: int
    entry_bytes: int
    log_count: int
    sorted_file_count: int
    torn_bytes: int
    damages: tuple[Damage, ...]


async def verify_storage(disk: Disk) -> StorageSummary:
    """Reads all files and compares every checksum.

    Raises ForeignDataError, CorruptionError (the identity), DiskFailedError.
    """
    identity = await read_identity(disk)
    files = LogFiles(disk, 0)
    try:
        index, older = MemoryIndex(), MemoryIndex()
        opened = await open_files(files, identity.bookie_id, "", 0, index.put)
        await replay_sorted(files, identity.bookie_id, opened, older.put)
    finally:
        await files.aclose()
    index.put([row for row in older.rows() if index.find(row.ledger_id, row.entry_id) is None])
    states = opened.states
    rows: list[IndexedEntry] = [row for row in index.rows() if row.ledger_id in states.ledgers]
    counts: dict[int, int] = {}
    for row in rows:
        counts[row.ledger_id] = counts.get(row.ledger_id, 0) + 1
    ledgers = tuple(
        LedgerSummary(
            ledger_id,
            counts.get(ledger_id, 0),
            -1 if (last := index.last(ledger_id)) is None else last,
            ledger.lac,
            ledger.is_fenced,
            states.limbo.covers(ledger_id),
        )
        for ledger_id, ledger in sorted(states.ledgers.items())
    )
    return StorageSummary(
        identity,
        ledgers,
        len(rows),
        sum(row.length for row in rows),
        len(opened.logs),
        len(opened.sorted),
        opened.torn_bytes,
        tuple(opened.damages),
    )
