"""Traces one record of a stream, from its append to its delivery."""

import asyncio
import time
from typing import Any

from ....client.connect import Client
from ....client.store_client import StoreClient
from ....core.log.namespace import Namespace
from ....core.log.read.record_batch import Record
from ....core.protocol.bookie_id import BookieId
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import InvalidArgumentError, NoSuchLedgerError, RhumblineError
from ....core.protocol.quorum import QuorumView
from ....core.protocol.segments import Segment
from ....regions.subscriptions.stream_lag import read_positions
from ...streams.records.record_documents import as_document
from .stream_names import StreamName

_ANSWER_S_MAX = 2.0
_READ_S_MAX = 10.0


async def trace_record(client: Client, name: StreamName, position: Dlsn) -> dict[str, Any]:
    """Return where a record is and who has it, as it is now.

    Raises NoSuchStreamError, InvalidArgumentError (no record has this position),
    MetadataUnavailableError and what a reader raises.
    """
    store = await client.namespaces.find(name.namespace)
    namespace = client.namespace_of(store, name.namespace)
    began = time.monotonic()
    record, traceparent = await _read(namespace, name.stream, position)
    read_ms = (time.monotonic() - began) * 1000
    known = await namespace.describe(name.stream)
    segment = next(one for one in known.segments if one.lssn == position.lssn)
    passed = [
        {"subscription": subscription, "has_passed": place > position}
        for subscription, place in await read_positions(namespace, name.stream)
    ]
    return {
        **as_document(record),
        "created_ms": record.created_ms,
        "size_bytes": len(record.payload),
        "traceparent": traceparent,
        "segment": segment.lssn,
        "residence": segment.residence.value,
        "is_completed": segment.is_completed,
        "read_ms": round(read_ms, 1),
        "stored": await _stored(store, segment, position.entry_id),
        "subscriptions": passed,
    }


async def _read(namespace: Namespace, stream: str, position: Dlsn) -> tuple[Record, str | None]:
    """Return the record at a position with the span of its producer, if it is readable."""
    try:
        async with asyncio.timeout(_READ_S_MAX):
            reader = await namespace.open_reader(stream, position)
            try:
                batch = await reader.next_batch()
            finally:
                await reader.aclose()
    except TimeoutError:
        batch = None
    found = None if batch is None else batch.records()[0]
    if batch is None or found is None or found.dlsn != position:
        raise InvalidArgumentError(f"no readable record of {stream} has the position {position}")
    return found, batch.traceparent


async def _stored(store: StoreClient, segment: Segment, entry: int) -> dict[str, Any] | None:
    """Return the copies of an entry; None if only the archive has it."""
    try:
        metadata, _ = await store.ledger_store.read(segment.ledger_id)
    except NoSuchLedgerError:
        return None
    quorum, fragment = metadata.quorum_at(entry), metadata.fragment_of(entry)
    regions = [await store.directory.region_of(bookie) for bookie in fragment.bookies]
    places = quorum.write_set(entry)
    bookies = [fragment.bookies[place] for place in places]
    asked = (_holds(store, bookie, segment.ledger_id, entry) for bookie in bookies)
    found = await asyncio.gather(*asked)
    held = sum(1 << place for place, (has_it, _) in zip(places, found, strict=True) if has_it)
    return {
        "ledger": segment.ledger_id,
        "entry": entry,
        "quorum": str(quorum),
        "is_acknowledged": QuorumView(quorum, regions).is_acked(held),
        "copies": [
            {
                "bookie": bookie,
                "region": regions[place] or "unknown",
                "state": {True: "holds it", False: "lacks it", None: "no response"}[has_it],
                "took_ms": round(took_ms, 1),
            }
            for place, bookie, (has_it, took_ms) in zip(places, bookies, found, strict=True)
        ],
    }


async def _holds(
    store: StoreClient, bookie: BookieId, ledger_id: int, entry: int
) -> tuple[bool | None, float]:
    """Return whether a bookie holds an entry, None if it does not respond, and the time in ms."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(_ANSWER_S_MAX):
            held: bool | None = entry in await store.ledgers.copies.list_entries(bookie, ledger_id)
    except (RhumblineError, TimeoutError):
        held = None
    return held, (time.monotonic() - began) * 1000
