"""``rhumbline durability``: what of the live data would not be safe if regions were lost."""

from typing import Any

import click

from ...core.metadata.bookie_directory import BookieDirectory
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.errors import InvalidArgumentError
from ...regions.durability import Exposure, exposures
from ..cluster_store import cluster_store
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import print_rows
from ..units import show_bytes

_STREAMS_SHOWN = 20


@click.command()
@click.option("--lose", "lost", multiple=True, help="A region; several times: all of them at once.")
@click.option("--strict", is_flag=True, help="Exit with 3 when anything is at risk.")
@session_options
@runs
async def durability(session: CommandSession, lost: tuple[str, ...], strict: bool) -> None:
    """Says what hangs on a region, from the metadata of every ledger that there is now.

    Without --lose, each region is looked at by itself.
    """
    async with cluster_store(session) as store:
        directory, ledgers = BookieDirectory(store), LedgerStore(store)
        known = sorted(
            {
                region
                for bookie in await directory.all_known()
                if (region := await directory.region_of(bookie)) is not None
            }
        )
        unknown = [name for name in lost if name not in known]
        if unknown:
            there = ", ".join(known) or "none"
            raise InvalidArgumentError(f"no bookie is in region {unknown[0]}; there are: {there}")
        sets = [lost] if lost else [(name,) for name in known]
        found = list(zip(sets, await exposures(ledgers, directory, sets), strict=True))
        directory.close()
    rows = [_row(names, one, session.output) for names, one in found]
    print_rows(rows, session.output, empty="no region is known")
    if strict and any(one.ledgers_at_risk or one.ledgers_unreadable for _, one in found):
        raise UnsafeError("acknowledged entries hang on these regions alone")


def _row(lost: tuple[str, ...], found: Exposure, output: str) -> dict[str, Any]:
    streams = list(found.streams_at_risk)
    row: dict[str, Any] = {
        "lost": list(lost),
        "streams_at_risk": len(streams),
        "ledgers_at_risk": found.ledgers_at_risk,
        "ledgers_unreadable": found.ledgers_unreadable,
        "entries_at_risk": found.entries_at_risk,
        "entries_lost": found.entries_lost,
        "ends_undecidable": found.ledgers_undecidable,
        "bytes_at_risk": found.bytes_at_risk,
    }
    if output == "json":
        totals = {
            "streams": len(found.streams),
            "ledgers": found.ledgers,
            "entries": found.entries,
        }
        return row | {"of": totals, "streams_named": streams[:_STREAMS_SHOWN]}
    return {key.replace("_", " "): value for key, value in row.items()} | {
        "bytes at risk": show_bytes(found.bytes_at_risk),
        "of entries": found.entries,
    }
