"""``rhumbline segment``: ls."""

import click

from ..options import CommandSession, runs, session_options
from ..output import print_rows
from ..units import show_bytes


@click.group()
def segment() -> None:
    """A log segment is one ledger's worth of a stream."""


@segment.command()
@click.argument("stream")
@session_options
@runs
async def ls(session: CommandSession, stream: str) -> None:
    """Lists the segments of a stream, and which bookies hold each."""
    async with session.client(moves_data=False) as client:
        known = await client.namespace().describe(stream)
        rows = []
        for item in known.segments:
            metadata, _ = await client.ledger_store.read(item.ledger_id)
            regions = {await client.directory.region_of(b) or "?" for b in metadata.bookies()}
            rows.append(
                {
                    "segment": item.lssn,
                    "state": "completed" if item.is_completed else "in progress",
                    "ledger": item.ledger_id,
                    "records": item.record_count if item.is_completed else None,
                    "size": show_bytes(item.length_bytes) if item.is_completed else None,
                    "residence": item.residence.value,
                    "quorum": str(metadata.quorum_at(0)),
                    "regions": sorted(regions),
                    "bookies": metadata.bookies(),
                    "fragments": len(metadata.fragments),
                }
            )
        print_rows(rows, session.output, empty=f"stream {stream} has no segment yet")
