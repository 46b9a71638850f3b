"""``rhumbline segment``: ls."""

import click

from ...client.units import show_bytes
from ..options import CommandSession, runs, session_options
from ..output import print_rows


@click.group()
def segment() -> None:
    """Show the log segments of a stream; each is stored in one ledger."""


@segment.command()
@click.argument("stream")
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
                    "size": show_bytes(segment_record.length_bytes)
                    if segment_record.is_completed
                    else None,
                    "residence": segment_record.residence.value,
                    "quorum": str(metadata.quorum_at(0)),
                    "min_regions_for_durability": {
                        f"from entry {first}": r for first, r in metadata.r_ranges()
                    },
                    "regions": sorted(regions),
                    "bookies": metadata.bookies(),
                    "fragments": len(metadata.fragments),
                    "end decided by an operator": segment_record.doubt or None,
                }
            )
        print_rows(rows, session.output, empty=f"stream {stream} has no segment yet")
