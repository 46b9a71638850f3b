"""``rhumbline durability``: the live copies of all data, and what one more failure would do."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ....client.units import show_bytes, show_count
from ....core.metadata.ledger_store import LedgerStore
from ....core.metadata.regional_store_records import read_regional_stores
from ....regions.durability.cluster_survey import read_durability
from ....regions.durability.copy_states import ClusterCopies
from ....regions.durability.crowded_entries import CrowdedEntries
from ....regions.durability.judgement import CopyVerdict
from ....regions.durability.ledger_index import LedgerIndex
from ....regions.durability.losses import lost_bookies
from ....regions.durability.report import (
    CLOSED,
    OPEN,
    DurabilityReport,
    StreamDurability,
    as_document,
    entries_by_r,
    tally,
)
from ....regions.steered_directory import SteeredDirectory
from ...cluster_store import cluster_store
from ...errors import UnsafeError
from ...options import CommandSession, runs, session_options
from ...output import TABLE, print_message, print_record, print_rows
from ...output_schema import prints
from .schema import DURABILITY

_CAUSES_SHOWN = 5
_WITHOUT_COPY = (CopyVerdict.UNAVAILABLE, CopyVerdict.LOST)

WhatIf = tuple[tuple[str, ...], DurabilityReport]
"""The losses, and the report after them."""


@click.command()
@click.option(
    "--lose",
    "lost",
    multiple=True,
    metavar="WHAT",
    help="What if this is lost for good: a region, or zone:Z, rack:R, host:H or bookie:B. Repeat "
    "it for several losses at once.",
)
@click.option("--streams", "with_streams", is_flag=True, help="Also list every stream.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 3 if acknowledged data is at risk now, or if the loss may lose some.",
)
@prints(DURABILITY)
@session_options
@runs
async def durability(
    session: CommandSession, lost: tuple[str, ...], with_streams: bool, strict: bool
) -> None:
    """Show the live copies of all ledgers, and what one more failure would do to them.

    These are the ledgers of the selected metadata store: give --metadata for that of a region.
    Copies count if their bookies are registered, are not in limbo, and have not lost them with a
    data directory. Ledgers that are being written are included. Without --lose, the loss of each
    region is evaluated separately.
    """
    async with cluster_store(session) as store:
        others = await read_regional_stores(store)
        directory = SteeredDirectory(store)
        try:
            index, cluster = await read_durability(LedgerStore(store), directory)
            crowded = CrowdedEntries(await directory.snapshot())
        finally:
            directory.close()
    for group in index.groups():
        crowded.add(group)
    by_r = entries_by_r(index.groups())
    now = tally(index, cluster, every_stream=with_streams)
    what_if = [
        (names, after_losses(index, cluster, names))
        for names in ([lost] if lost else [(name,) for name in _regions(cluster)])
    ]
    if session.output != TABLE:
        print_record(_document(now, what_if, crowded.counts, by_r, with_streams), session.output)
    else:
        _print_tables(now, what_if, crowded.counts, by_r, with_streams)
    if others:
        print_message(f"not read: the metadata stores of {', '.join(sorted(others))} (--metadata)")
    reasons = faults(now, what_if)
    if strict and reasons:
        raise UnsafeError("; ".join(reasons))


def faults(now: DurabilityReport, what_if: Sequence[WhatIf]) -> list[str]:
    """Return why the data is not safe, now or after the losses; empty if it is safe."""
    found = []
    if now.ledgers_unreadable:
        found.append(describe_unreadable(now))
    if now.ledgers_at_risk():
        counts = [
            f"{number} {verdict.key.replace('_', ' ')}"
            for verdict in CopyVerdict
            if verdict.is_at_risk and (number := now.ledgers_with([verdict]))
        ]
        at_risk = show_count(now.ledgers_at_risk(), "ledger")
        text = f"{at_risk} ({now.ledgers_at_risk(OPEN)} open) at risk now: {', '.join(counts)}"
        causes = sorted(now.causes.items(), key=lambda item: -item[1][1])
        shown = [f"{bookie} is {state.value}" for bookie, (state, _) in causes[:_CAUSES_SHOWN]]
        more = len(causes) - len(shown)
        found.append(text + "".join(f", {one}" for one in shown) + (f", {more} more" * (more > 0)))
    for names, report in what_if:
        if _losses(report) != _losses(now):
            ledgers = show_count(report.ledgers_that_may_lose(), "ledger")
            gone = report.ledgers_with(_WITHOUT_COPY)
            found.append(
                f"the loss of {', '.join(names)} may lose entries of {ledgers}, "
                f"{gone} of which would have no live copy"
            )
    return found


def describe_unreadable(report: DurabilityReport) -> str:
    """Say how many ledgers the report knows nothing about."""
    damaged = show_count(report.ledgers_unreadable, "ledger")
    return f"nothing is known about {damaged} with damaged metadata"


def _losses(report: DurabilityReport) -> tuple[int, int]:
    return report.ledgers_that_may_lose(), report.ledgers_with(_WITHOUT_COPY)


def _regions(cluster: ClusterCopies) -> list[str]:
    return sorted({str(m.path[0]) for m in cluster.members.values() if m.path[0] is not None})


def after_losses(
    index: LedgerIndex, cluster: ClusterCopies, names: Sequence[str]
) -> DurabilityReport:
    """Return the report after these places are lost for good. Raises InvalidArgumentError."""
    lost = frozenset(bookie for name in names for bookie in lost_bookies(cluster, name))
    return tally(index, cluster.without(lost))


# --- JSON -----------------------------------------------------------------------------------------


def _document(
    now: DurabilityReport,
    what_if: Sequence[WhatIf],
    crowded: Mapping[str, int],
    by_r: Mapping[int, int],
    with_streams: bool,
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "now": {
            **as_document(now),
            "bookies": {state.value: number for state, number in now.bookies.items()},
            "streams_at_risk": now.streams_at_risk(),
            "causes": [
                {"bookie": bookie, "state": state.value, "ledgers": number}
                for bookie, (state, number) in now.causes.items()
            ],
            "entries_crowded": dict(crowded),
            "entries_by_r": {str(r): count for r, count in by_r.items()},
        },
        "what_if": [
            {
                "lost": list(names),
                **as_document(report),
                "streams_that_may_lose": report.streams_that_may_lose(),
            }
            for names, report in what_if
        ],
    }
    if with_streams:
        document["streams"] = [
            {"stream": name, **_stream(now.streams[name])} for name in sorted(now.streams)
        ]
    return document


def _stream(stream: StreamDurability) -> dict[str, Any]:
    return {
        "verdict": stream.worst.key,
        "ledgers": stream.ledgers,
        "ledgers_at_risk": stream.at_risk,
        "one_bookie_from_loss": stream.one_bookie_from_loss,
        "writes_blocked": stream.is_blocked,
        "one_bookie_from_blocking": stream.is_one_bookie_from_blocking,
    }


# --- tables ---------------------------------------------------------------------------------------


def _print_tables(
    now: DurabilityReport,
    what_if: Sequence[WhatIf],
    crowded: Mapping[str, int],
    by_r: Mapping[int, int],
    with_streams: bool,
) -> None:
    states = [f"{number} {state.value}" for state, number in now.bookies.items() if number]
    click.echo(f"bookies: {', '.join(states) or 'none'}")
    rows = [
        {"ledgers": state, "all": now.ledgers_with(CopyVerdict, state)}
        | {verdict.key.replace("_", " "): number for verdict, number in now.ledgers[state].items()}
        | {"blocked": now.writes_blocked if state == OPEN else 0}
        for state in (OPEN, CLOSED)
    ]
    print_rows(rows, TABLE, empty="")
    click.echo("\n".join(faults(now, ()) or ["nothing is at risk now"]))
    shown = ", ".join(f"R={r}: {number}" for r, number in by_r.items()) or "none"
    click.echo(f"entries by R: {shown}")
    if any(crowded.values()):
        levels = ", ".join(f"{level}: {number}" for level, number in crowded.items() if number)
        click.echo(f"entries with copies that could be spread better, by level: {levels}")
    click.echo()
    failures = [
        {
            "one failure of a": level,
            "takes the last copies of": sum(now.one_failure_from_loss[level].values()),
            "of which open": now.one_failure_from_loss[level][OPEN],
            "blocks writes of": now.one_failure_from_blocking[level],
        }
        for level in now.levels
    ]
    print_rows(failures, TABLE, empty="")
    click.echo()
    print_rows([_what_if_row(*one) for one in what_if], TABLE, empty="no region is known")
    if with_streams:
        click.echo()
        streams = [
            {"stream": name}
            | {key.replace("_", " "): value for key, value in _stream(now.streams[name]).items()}
            for name in sorted(now.streams)
        ]
        print_rows(streams, TABLE, empty="no stream has a ledger")


def _what_if_row(names: tuple[str, ...], report: DurabilityReport) -> dict[str, Any]:
    lost = [verdict for verdict in CopyVerdict if verdict.may_lose]
    return {
        "after losing": list(names),
        "ledgers that may lose": report.ledgers_that_may_lose(),
        "entries": report.entries_that_may_be_lost(),
        "without copy": report.entries_without_copy(),
        "bytes": show_bytes(sum(report.bytes[verdict] for verdict in lost)),
        "ends undecidable": report.ends_undecidable,
        "writes blocked": report.writes_blocked,
        "streams": len(report.streams_that_may_lose()),
    }
