"""``rhumbline segment``: ls."""

import click

from ..options import CommandSession, runs, session_options
from ..output import print_rows
from ..output_schema import integer, listing, maybe, prints, record, rows, table, text

_SEGMENT = record(
    {
        "segment": integer("Number of the segment."),
        "state": text("Whether its end is known.", "completed", "in progress"),
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
@prints(rows(_SEGMENT))
@session_options
@runs
async def ls(session: CommandSession, stream: str) -> None:
    """List the segments of a stream, with the bookies that store each."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace().describe(stream)
        store = await client.namespaces.find(client.namespace().name)
        rows = []
        for segment_record in known.segments:
            metadata, _ = await store.ledger_store.read(segment_record.ledger_id)
            regions = {await store.directory.region_of(b) or "?" for b in metadata.bookies()}
            rows.append(
                {
                    "segment": segment_record.lssn,
                    "state": "completed" if segment_record.is_completed else "in progress",
                    "ledger": segment_record.ledger_id,
                    "records": segment_record.record_count if segment_record.is_completed else None,
                    "size_bytes": segment_record.length_bytes
                    if segment_record.is_completed
                    else None,
                    "residence": segment_record.residence.value,
                    "quorum": str(metadata.quorum_at(0)),
                    "min_regions_for_durability": {
                        str(first): r for first, r in metadata.r_ranges()
                    },
                    "regions": sorted(regions),
                    "bookies": list(metadata.bookies()),
                    "fragments": len(metadata.fragments),
                    "end_decided_by_an_operator": segment_record.doubt or None,
                }
            )
        print_rows(rows, session.output, empty=f"stream {stream} has no segment yet")
