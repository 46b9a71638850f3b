"""``rhumbline plan``: the guarantees of a quorum on a planned topology or the live cluster."""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import click

from ...core.log.policy import StreamPolicy
from ...core.metadata.bookie_directory import BookieDirectory
from ...core.protocol.errors import ConfigurationError, InvalidArgumentError
from ...core.protocol.placement import (
    LEVELS,
    SPREAD_LEVELS,
    BookieInfo,
    crowded_levels,
    fewest_domains,
    in_regions,
)
from ...core.protocol.quorum import Quorum
from ...placement.planner import DeploymentPlan, Numbers
from ...placement.planner import plan as make_plan
from ...placement.region_aware import RegionAwarePlacement
from ...placement.topology import Topology, topology_from
from ..cluster_store import cluster_store
from ..errors import UnsafeError
from ..options import CommandSession, runs, session_options
from ..output import TABLE, format_table, print_document
from ..output_schema import flag, integer, listing, maybe, number, prints, record, table, text
from ..streams.policy_options import parse_regions
from .load_needs import LOAD, load_document, load_needs, load_text, read_load_files

_QUORUM = re.compile(r"(\d{1,3})/(\d{1,3})/(\d{1,3})(?:/R?(\d{1,3}))?")
_YES = {True: "yes", False: "NO"}


_LATENCY = record({"p50_ms": number("Median."), "p99_ms": number("99th percentile.")})
_LOSS = record(
    {
        "lost": listing(text("Region."), "Regions that are lost."),
        "reads": flag("True if all acknowledged entries stay readable."),
        "recovery": flag("True if the end of an open ledger stays decidable."),
        "writer_continues": flag("True if a writer continues without a new ensemble."),
        "writes_resume": flag("True if writes resume with a new ensemble."),
        "obstacle": maybe(text("What prevents it.")),
    }
)
_SPREAD = record(
    {
        "level": text("Level below the region.", *SPREAD_LEVELS),
        "in_the_cluster": integer("Domains of this level."),
        "of_each_write_set": integer("Domains of the write set that has the fewest."),
        "is_spread": flag("True if it cannot be better."),
    }
)
_COUNTING = record(
    {
        "accepted_upstream": flag("True if BookKeeper accepts the quorum."),
        "regions_spanned": integer("Regions by counting copies."),
        "regions_spanned_squeezed": integer("The same in the worst ensemble."),
    }
)
_PLAN = record(
    {
        "quorum": text("E/WQ/AQ/R."),
        "legal": flag("False if the quorum is refused."),
        "refusal": maybe(text("Why it is refused.")),
        "nearest": maybe(text("The nearest quorum that is accepted.")),
        "spread": listing(_SPREAD, "Zones, racks and hosts; of a file only its hosts."),
        "layout": table(integer("Bookies."), "Bookies of an ensemble by region."),
        "robust": flag("True if any region may be lost without a stop of writes."),
        "fragile": flag("True if the loss of some region stops writes."),
        "any_regions_survived": integer("Regions that may be lost at once, any of them."),
        "by_counting": _COUNTING,
        "losses": listing(_LOSS, "What each loss of regions would do."),
        "ack": table(_LATENCY, "Time to an acknowledgement, by region of the writer."),
        "wan_bytes_per_byte": number("Bytes between regions per byte written."),
        "load": LOAD,
    },
    optional=(
        "layout", "robust", "fragile", "any_regions_survived", "by_counting", "losses", "ack",
        "wan_bytes_per_byte", "load",
    ),
)  # fmt: skip


@click.command()
@click.argument("topology", required=False, type=click.Path(path_type=Path))
@click.option("--quorum", help="E/WQ/AQ/R: bookies, copies, acks, regions, e.g. 3/3/2/2.")
@click.option("--e", "ensemble_size", type=int, help="Bookies in an ensemble.")
@click.option("--wq", "write_quorum", type=int, help="Copies of an entry.")
@click.option(
    "--aq", "ack_quorum", type=int, help="Copies on disk before an entry is acknowledged."
)
@click.option("--r", "min_regions", type=int, help="Regions that these copies must be in.")
@click.option("--regions", help="Regions that may store the data, e.g. eu,us.")
@click.option(
    "--must-survive",
    type=click.IntRange(min=0),
    help="Exit with 3 unless writes can resume after the loss of any N regions.",
)
@click.option(
    "--load",
    "load_file",
    type=click.Path(path_type=Path),
    help="TOML file with a load: also show the machines, disks and traffic it needs.",
)
@click.option(
    "--prices",
    "price_file",
    type=click.Path(path_type=Path),
    help="With --load: TOML file with a kind of machine and prices.",
)
@prints(_PLAN)
@session_options
@runs
async def plan(
    session: CommandSession, topology: Path | None, quorum: str | None, ensemble_size: int | None,
    write_quorum: int | None, ack_quorum: int | None, min_regions: int | None,
    regions: str | None, must_survive: int | None, load_file: Path | None,
    price_file: Path | None,
) -> None:  # fmt: skip
    """Show the guarantees of a quorum before deployment.

    TOPOLOGY is a TOML file with the regions, their bookies, round trips and fsync times. Without it
    the bookies of the live cluster are counted (without latencies), and quorum and regions are
    those of the namespace unless given.
    """
    if price_file is not None and load_file is None:
        raise click.UsageError("--prices needs --load")
    files = None if load_file is None else read_load_files(load_file, price_file)
    given = (ensemble_size, write_quorum, ack_quorum, min_regions)
    allowed = parse_regions(regions) if regions else ()
    if topology is None and quorum is None and ensemble_size is None:
        policy = await _policy(session)
        quorum, allowed = str(policy.quorum), allowed or policy.regions
    numbers = _numbers(quorum, given)
    where, bookies = await _read_bookies(session, topology, allowed)
    found = make_plan(where, numbers)
    spread = spread_by_level(numbers, bookies) if bookies and found.refusal is None else []
    if topology is not None:
        spread = [row for row in spread if row["level"] == "host"]  # a file has no other labels
    rows = [
        {key.replace("_", " "): value for key, value in row.items()}
        | {"is spread": _YES[row["is_spread"]]}
        for row in spread
    ]
    needs = None
    if files is not None and found.refusal is None:
        crossing = found.wan_bytes_per_byte
        needs = load_needs(files, Quorum(*numbers), crossing, len(where.bookies))
    if session.output == TABLE:
        tables = [format_table(rows)] if rows else []
        if needs is not None and files is not None:
            tables.append(load_text(needs, files.prices))
        click.echo("\n\n".join([as_text(found), *tables]))
    else:
        document = as_document(found) | {"spread": spread}
        if needs is not None and files is not None:
            document["load"] = load_document(needs, files.prices)
        print_document(document, session.output)
    if found.refusal is not None:
        raise UnsafeError(f"{_show(numbers)} is refused: {found.refusal}")
    if must_survive is not None and found.losses_survived() < must_survive:
        raise UnsafeError(
            f"{_show(numbers)} survives the loss of any {found.losses_survived()} regions, "
            f"not of {must_survive}"
        )


async def _read_bookies(
    session: CommandSession, file: Path | None, allowed: Sequence[str]
) -> tuple[Topology, list[BookieInfo]]:
    """Return the topology of a file or the cluster, and its bookies if their hosts are known."""
    if file is None:
        bookies = in_regions(await _bookies(session), allowed)
        return _live(bookies).limited_to(allowed), bookies
    where = read_topology(file).limited_to(allowed)
    return where, where.planned_bookies() if where.hosts else []


def read_topology(file: Path) -> Topology:
    """Read the topology from a TOML file. Raises ConfigurationError, InvalidArgumentError."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: invalid TOML: {error}") from error
    try:
        return topology_from(table)
    except InvalidArgumentError as error:
        faults = "\n".join(f"{file}: {line}" for line in str(error).splitlines())
        raise ConfigurationError(faults) from error


async def _bookies(session: CommandSession) -> list[BookieInfo]:
    async with cluster_store(session) as store:
        directory = BookieDirectory(store)
        found = await directory.snapshot()
        directory.close()
    if not found:
        raise InvalidArgumentError("the cluster has no writable bookie to plan with")
    return found


def _live(bookies: Sequence[BookieInfo]) -> Topology:
    return Topology(Counter(info.region or "unknown" for info in bookies), None)


def spread_by_level(numbers: Numbers, bookies: Sequence[BookieInfo]) -> list[dict[str, Any]]:
    """Return for each level the domains of the write set that has the fewest, in an ensemble that
    placement would choose now."""
    quorum = Quorum(*numbers)
    paths = {info.bookie: info.path for info in bookies}
    chosen = RegionAwarePlacement().new_ensemble(quorum, bookies, random=Random(0))
    members = [paths[bookie] for bookie in chosen]
    crowded = crowded_levels(quorum, members, paths.values())
    fewest = fewest_domains(quorum, members)
    return [
        {
            "level": level,
            "in_the_cluster": len({path[: depth + 1] for path in paths.values()}),
            "of_each_write_set": fewest[depth],
            "is_spread": level not in crowded,
        }
        for depth, level in enumerate(LEVELS)
        if level in SPREAD_LEVELS
    ]


async def _policy(session: CommandSession) -> StreamPolicy:
    async with session.namespace(moves_data=False) as namespace:
        return await namespace.policy()


def _numbers(quorum: str | None, given: tuple[int | None, ...]) -> Numbers:
    if quorum is None:
        e, wq, aq, r = given
        if e is None:
            raise InvalidArgumentError("no quorum: give --quorum E/WQ/AQ/R, e.g. 3/3/2/2")
        wq = e if wq is None else wq
        return e, wq, wq // 2 + 1 if aq is None else aq, 1 if r is None else r
    match = _QUORUM.fullmatch(quorum.strip())
    if match is None or any(number is not None for number in given):
        raise InvalidArgumentError(
            f"{quorum!r} is not a quorum; write E/WQ/AQ/R, e.g. 3/3/2/2"
            if match is None
            else "give either --quorum or --e, --wq, --aq and --r"
        )
    e, wq, aq, r = (int(part or 1) for part in match.groups())
    return e, wq, aq, r


def as_document(found: DeploymentPlan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    document: dict[str, Any] = {
        "quorum": _show(found.numbers),
        "legal": found.refusal is None,
        "refusal": found.refusal,
        "nearest": None if found.nearest is None else str(found.nearest),
    }
    if found.layout is None:
        return document
    assert found.counting is not None
    return document | {
        "layout": _layout(found),
        "robust": found.robust,
        "fragile": found.fragile,
        "any_regions_survived": found.losses_survived(),
        "by_counting": {
            "accepted_upstream": found.counting.accepted,
            "regions_spanned": found.counting.regions_spanned,
            "regions_spanned_squeezed": found.counting.regions_spanned_squeezed,
        },
        "losses": [
            {
                "lost": list(loss.lost),
                "reads": loss.data_survives,
                "recovery": loss.end_decidable,
                "writer_continues": loss.writer_continues,
                "writes_resume": loss.writes_resume,
                "obstacle": loss.obstacle,
            }
            for loss in found.losses
        ],
        "ack": {
            latency.region: {"p50_ms": round(latency.p50_ms, 3), "p99_ms": round(latency.p99_ms, 3)}
            for latency in found.latencies
        },
        "wan_bytes_per_byte": round(found.wan_bytes_per_byte, 3),
    }


def as_text(found: DeploymentPlan) -> str:
    """Return a plan as printable lines."""
    if found.refusal is not None:
        nearest = "none" if found.nearest is None else str(found.nearest)
        return f"{_show(found.numbers)}: REFUSED\n  {found.refusal}\n  nearest accepted: {nearest}"
    assert found.counting is not None
    count = found.counting.regions_spanned
    kind = "robust" if found.robust else "FRAGILE" if found.fragile else "not robust"
    spread = ", ".join(f"{name} {number}" for name, number in _layout(found).items())
    lines = [
        f"{_show(found.numbers)}: legal, {kind}",
        f"  an ensemble: {spread}",
        f"  an acknowledged entry is on {found.numbers[2]} bookies in "
        f"{found.numbers[3]} regions (by counting alone: {count})",
        f"  regions that may be lost at once, any of them: {found.losses_survived()}",
        f"  bytes between regions per byte written: {found.wan_bytes_per_byte:.2f}",
    ]
    losses = [
        {
            "lost": ", ".join(loss.lost),
            "reads": _YES[loss.data_survives],
            "recovery": _YES[loss.end_decidable],
            "writer continues": _YES[loss.writer_continues],
            "writes resume": _YES[loss.writes_resume],
            "because": loss.obstacle or "",
        }
        for loss in found.losses
    ]
    latencies = [
        {
            "writer in": latency.region,
            "ack p50 ms": f"{latency.p50_ms:.1f}",
            "ack p99 ms": f"{latency.p99_ms:.1f}",
        }
        for latency in found.latencies
    ]
    return "\n\n".join(
        ["\n".join(lines), *(format_table(rows) for rows in (losses, latencies) if rows)]
    )


def _layout(found: DeploymentPlan) -> dict[str, int]:
    assert found.layout is not None
    return dict(sorted(Counter(str(region) for region in found.layout).items()))


def _show(numbers: Numbers) -> str:
    e, wq, aq, r = numbers
    return f"{e}/{wq}/{aq}/R{r}"
