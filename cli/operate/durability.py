"""``rhumbline durability``: the live data that the loss of regions would put at risk."""

from typing import Any

import click

from ...client.units import show_bytes
from ...core.metadata.bookie_directory import BookieDirectory
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.errors import InvalidArgumentError
from ...regions.durability import Exposure, exposures
from ..cluster_store import cluster_store
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import print_rows

_STREAMS_SHOWN = 20


@click.command()
@click.option(
    "--lose",
    "lost",
    multiple=True,
    help="Region to lose; repeat it for several regions lost at once.",
)
@click.option("--strict", is_flag=True, help="Exit with 3 if any data is at risk.")
@session_options
@runs
async def durability(session: CommandSession, lost: tuple[str, ...], strict: bool) -> None:
    """Show the data that the loss of a region puts at risk, from the metadata of all ledgers.

    Without --lose, each region is evaluated separately. The last columns count the entries whose
    copies lie in fewer zones, racks or hosts than they could, and all entries by the R
    (min_regions_for_durability) under which they were written, as their ledgers record it.
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
            regions = ", ".join(known) or "none"
            raise InvalidArgumentError(
                f"no bookie is in region {unknown[0]}; the regions are: {regions}"
            )
        sets = [lost] if lost else [(name,) for name in known]
        found = list(zip(sets, await exposures(ledgers, directory, sets), strict=True))
        directory.close()
    rows = [_row(names, exposure, session.output) for names, exposure in found]
    print_rows(rows, session.output, empty="no region is known")
    if strict and any(
        exposure.ledgers_at_risk or exposure.ledgers_unreadable for _, exposure in found
    ):
        raise UnsafeError(
            "the loss of these regions would lose acknowledged entries or make them unreadable"
        )


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
        "entries_crowded": dict(found.entries_crowded),
        "entries_by_r": {f"R={r}": found.entries_by_r[r] for r in sorted(found.entries_by_r)},
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
