"""``rhumbline node adopt``: records the regions of bookies of Apache BookKeeper (rule PLC-10)."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from ....client.connect import Client
from ....core.metadata.bookie_directory import BookieDirectory
from ....core.metadata.declared_regions import check_declared, read_declared_regions
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.errors import (
    BookieUnavailableError,
    ConfigurationError,
    CorruptionError,
    InvalidArgumentError,
)
from ....core.wire.registration import parse_address
from ...options import CommandSession, runs, session_options
from ...output import print_rows
from ...output_schema import flag, maybe, prints, record, rows, text
from .region_mapping import AdoptedBookie, RegionMapping, mapping_of_paths, parse_mapping

_SCRIPT_S_MAX = 30.0
_OUTPUT_MAX = 100_000

_ROW = record(
    {
        "bookie": text("Id of the bookie."),
        "host": maybe(text("Host that it registered or that its id names.")),
        "region": text("Region of the bookie."),
        "is_new": flag("True if the command recorded the region, or would with --dry-run."),
    }
)


@click.command()
@click.option(
    "--regions",
    "regions_file",
    type=click.File(encoding="utf-8", errors="replace"),
    help="TOML file with a table [regions]: bookie id, host or network = region.",
)
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Program that prints /region/rack for each host, as BookKeeper's network topology script.",
)
@click.option("--dry-run", is_flag=True, help="Show the regions and record nothing.")
@prints(rows(_ROW))
@session_options
@runs
async def adopt(
    session: CommandSession, regions_file: TextIO | None, script: Path | None, dry_run: bool
) -> None:
    """Record the regions of Apache BookKeeper's bookies, which have none. Safe to repeat.

    A recorded region never changes: look at --dry-run first. Nothing is recorded unless every
    bookie has a region.
    """
    if (regions_file is None) == (script is None):
        raise InvalidArgumentError("exactly one of --regions and --script is needed")
    async with session.client(moves_data=False) as client:
        bookies = [
            await _adopted(client.directory, found)
            for found in sorted({*await client.directory.all_known(), *await client.directory.up()})
        ]
        recorded = {
            one.bookie_id: region
            for one in bookies
            if (region := await client.directory.region_of(one.bookie_id)) is not None
        }
        without = [one for one in bookies if one.bookie_id not in recorded]
        if script is not None:
            mapping = await _run_script(script, sorted({one.host for one in without if one.host}))
        else:
            assert regions_file is not None
            mapping = parse_mapping(regions_file.read())
        chosen = await _choose(client, without, mapping)
        if not dry_run:
            for bookie, region in chosen.items():
                await client.directory.record_region(bookie, region)
    shown = [
        {
            "bookie": one.bookie_id,
            "host": one.host or None,
            "region": (recorded | chosen)[one.bookie_id],
            "is_new": one.bookie_id in chosen,
        }
        for one in bookies
    ]
    print_rows(shown, session.output, empty="no bookie is formatted for this cluster")


async def _adopted(directory: BookieDirectory, bookie: BookieId) -> AdoptedBookie:
    with suppress(BookieUnavailableError, CorruptionError):
        return AdoptedBookie(bookie, (await directory.registration(bookie)).host)
    address = parse_address(bookie)
    return AdoptedBookie(bookie, "" if address is None else address.host)


async def _choose(
    client: Client, bookies: list[AdoptedBookie], mapping: RegionMapping
) -> dict[BookieId, Region]:
    """Return the region of each bookie. Raises ConfigurationError if one is missing or unknown."""
    declared = await read_declared_regions(client.store)
    chosen: dict[BookieId, Region] = {}
    for one in bookies:
        region = mapping.region_of(one)
        if region is not None:
            check_declared(region, declared, f"the mapping of bookie {one.bookie_id}")
            chosen[one.bookie_id] = region
    missing = [str(one.bookie_id) for one in bookies if one.bookie_id not in chosen]
    if missing:
        raise ConfigurationError(f"no region is given for bookies {', '.join(missing)}")
    return chosen


async def _run_script(script: Path, hosts: list[str]) -> RegionMapping:
    """Return the regions that the script prints. Raises ConfigurationError."""
    if not hosts:
        return RegionMapping({}, {})
    try:
        process = await asyncio.create_subprocess_exec(
            str(script),
            *hosts,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise ConfigurationError(f"the script {script} cannot be started: {error}") from error
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), _SCRIPT_S_MAX)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise ConfigurationError(
            f"the script {script} did not end within {_SCRIPT_S_MAX:.0f} s"
        ) from error
    if process.returncode != 0 or len(printed) > _OUTPUT_MAX:
        raise ConfigurationError(
            f"the script {script} ended with code {process.returncode} and printed "
            f"{len(printed)} bytes"
        )
    return mapping_of_paths(hosts, printed.decode("utf-8", "replace"))
