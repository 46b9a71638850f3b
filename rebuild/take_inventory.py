"""Takes the inventory of a stopped bookie's storage, and fences its open ledgers.

The fences make the inventory final: whatever a writer sends later is refused, so every
acknowledged entry is in the inventories (rule BAK-2). A fence does no harm if the metadata store
turns out not to be lost: writers begin new segments.
"""

from collections.abc import Callable

from ..core.bookie.identity import Identity
from ..core.bookie.ledger_records import LedgerRecord
from ..core.bookie.storage import Storage
from ..core.log.write.end_of_stream import last_txid_of
from ..core.protocol.errors import (
    CorruptionError,
    DiskFailedError,
    NoSuchEntryError,
    UnknownStateError,
)
from ..core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ..core.protocol.record_set import decode_entry as decode_record_sets
from ..core.wire.entry import ENTRY_HEADER, EntryDigest, decode_entry
from ..core.wire.ledger_metadata import decode as decode_metadata
from .inventory import BookieInventory, EndFacts, HeldLedger, HeldRange, ranges_of

TAIL_ENTRIES_MAX = 1_024
"""Number of last entries whose facts are in the inventory, if the end of the ledger is unknown."""

_PAGE = 20_000


async def take_inventory(
    storage: Storage,
    identity: Identity,
    wall_ms: int,
    on_progress: Callable[[int], None] = lambda _: None,
) -> BookieInventory:
    """Fence the open ledgers and return the inventory. Safe to repeat.

    ``on_progress`` is called with the number of ledgers so far. Raises DiskFullError,
    DiskFailedError.
    """
    states = storage.states
    ledgers: list[HeldLedger] = []
    for ledger_id, ledger in sorted(states.ledgers.items()):
        ledgers.append(await _held(storage, ledger))
        on_progress(len(ledgers))
        assert ledgers[-1].ledger_id == ledger_id
    return BookieInventory(
        bookie_id=identity.bookie_id,
        instance_id=identity.instance_id,
        region=identity.region,
        rack=identity.rack,
        start=identity.start,
        token=identity.token,
        taken_ms=wall_ms,
        highest_ledger_id=max([-1, *states.ledgers, *states.tombstones]),
        is_in_limbo=states.limbo.is_active,
        ledgers=tuple(ledgers),
    )


async def _held(storage: Storage, ledger: LedgerRecord) -> HeldLedger:
    ledger_id = ledger.ledger_id
    data = storage.states.copies.get(ledger_id, b"")
    try:
        metadata = decode_metadata(ledger_id, data) if data else None
    except CorruptionError:
        metadata, data = None, b""
    is_closed = metadata is not None and metadata.state is LedgerState.CLOSED
    if not is_closed:
        await storage.fence_durably(ledger)
    ranges = await _ranges(storage, ledger_id)
    wanted: list[int] = []
    if ranges and metadata is not None:
        last = metadata.last_entry_id if is_closed else ranges[-1].last
        first = last if is_closed else last - TAIL_ENTRIES_MAX + 1
        wanted = list(range(max(0, first), last + 1))
    tail = []
    for entry_id in wanted:
        assert metadata is not None
        facts = await _facts(storage, metadata, entry_id)
        if facts is not None:
            tail.append(facts)
    return HeldLedger(
        ledger_id,
        ranges,
        ledger.lac,
        storage.states.limbo.covers(ledger_id),
        data,
        tuple(tail),
    )


async def _ranges(storage: Storage, ledger_id: int) -> tuple[HeldRange, ...]:
    found: list[int] = []
    while True:
        first = found[-1] + 1 if found else 0
        page = await storage.index.page(ledger_id, first, _PAGE)
        found.extend(row.entry_id for row in page)
        if len(page) < _PAGE:
            return ranges_of(found)


async def _facts(storage: Storage, metadata: LedgerMetadata, entry_id: int) -> EndFacts | None:
    """Return the facts that an entry carries; None if it is not here or cannot be read."""
    ledger_id = metadata.ledger_id
    try:
        location = await storage.locate(ledger_id, entry_id)
        data = await storage.read(ledger_id, entry_id, location)
        entry = decode_entry(
            EntryDigest(metadata.digest_type, metadata.password), ledger_id, entry_id, data
        )
    except (NoSuchEntryError, UnknownStateError, CorruptionError, DiskFailedError):
        return None
    try:
        final = decode_record_sets(entry.payload)[-1]
        txid, ends_stream = last_txid_of(final)
    except CorruptionError:  # not a ledger of a stream
        return EndFacts(entry_id, ENTRY_HEADER.unpack_from(data)[3], has_records=False)
    return EndFacts(
        entry_id,
        entry.length,
        has_records=True,
        record_count=final.position + (0 if final.is_control else final.count),
        last_txid=txid,
        ends_stream=ends_stream,
        producers_entry=final.producers_entry,
        created_ms=final.created_ms,
    )
