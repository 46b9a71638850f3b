"""``rhumbline segment``: ls."""

from typing import Any

import click

from ...client.store_client import StoreClient
from ...core.protocol.segments import Segment
from ..options import CommandSession, runs, session_options
from ..output import print_rows
from ..output_schema import integer, listing, maybe, prints, record, rows, table, text

COMPLETED, IN_PROGRESS = "completed", "in progress"

SEGMENT = record(
    {
        "segment": integer("Number of the segment."),
        "state": text("Whether its end is known.", COMPLETED, IN_PROGRESS),
        "ledger": integer("Id of its ledger."),
        "records": maybe(integer("Records; null while the segment is in progress.")),
        "size_bytes": maybe(integer("Payload; null while the segment is in progress.")),
        "residence": text("Where its data is."),
        "quorum": text("E/WQ/AQ/R of its first entry."),
        "min_regions_for_durability": table(
            integer("R."), "By the first entry from which this R holds."
        ),
        "regions": listing(text("Region."), "Regions with a bookie of the ledger."),
        "bookies": listing(text("Bookie."), "Bookies of the ledger."),
        "fragments": integer("Fragments of the ledger: ensembles that followed each other."),
        "end_decided_by_an_operator": maybe(text("The decision, if there was one.")),
    }
)


@click.group()
def segment() -> None:
    """Show the log segments of a stream; each is stored in one ledger."""


@segment.command()
@click.argument("stream")
@prints(rows(SEGMENT))
@session_options
@runs
async def ls(session: CommandSession, stream: str) -> None:
    """List the segments of a stream, with the bookies that store each."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace().describe(stream)
        store = await client.namespaces.find(client.namespace().name)
        rows = [await segment_row(store, segment_record) for segment_record in known.segments]
        print_rows(rows, session.output, empty=f"stream {stream} has no segment yet")


async def segment_row(store: StoreClient, found: Segment) -> dict[str, Any]:
    """Return a segment as ``segment ls`` prints it.

    Raises NoSuchLedgerError if its ledger was deleted, MetadataUnavailableError.
    """
    metadata, _ = await store.ledger_store.read(found.ledger_id)
    regions = {await store.directory.region_of(b) or "?" for b in metadata.bookies()}
    return {
        "segment": found.lssn,
        "state": COMPLETED if found.is_completed else IN_PROGRESS,
        "ledger": found.ledger_id,
        "records": found.record_count if found.is_completed else None,
        "size_bytes": found.length_bytes if found.is_completed else None,
        "residence": found.residence.value,
        "quorum": str(metadata.quorum_at(0)),
        "min_regions_for_durability": {str(first): r for first, r in metadata.r_ranges()},
        "regions": sorted(regions),
        "bookies": list(metadata.bookies()),
        "fragments": len(metadata.fragments),
        "end_decided_by_an_operator": found.doubt or None,
    }
