"""``rhumbline bookie``: format, run; commands on a stopped bookie are in ``bookie_storage``."""

import asyncio
import signal
from pathlib import Path

import click

from ...backends.open_store import open_store
from ...core.protocol.errors import ConfigurationError
from ...server.bookie_host import (
    format_bookie,
    formatted_bookie,
    is_formatted,
    running_bookie,
    status_address,
)
from ...server.process_memory import bound_heap, keep_from_collector
from ..options import CommandSession, runs, session_options
from ..output import TABLE, print_done, print_message
from ..output_schema import done, prints, text
from .bookie_inventory import inventory
from .bookie_storage import COMMANDS
from .serving import (
    SERVING,
    host_option,
    port,
    port_option,
    print_serving,
    show_address,
    status_host,
    status_host_option,
    status_port,
    status_port_option,
)


@click.group()
def bookie() -> None:
    """Format, run and examine a bookie, the server that stores entries."""


@bookie.command("format")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--name", required=True, help="Name of the bookie; its id is the name and a random suffix."
)
@click.option("--rack", default="default", show_default=True, help="Rack of the bookie.")
@click.option(
    "--unless-formatted",
    is_flag=True,
    help="Change nothing if DIRECTORY holds a bookie of this name, region and cluster already.",
)
@prints(
    done(
        {
            "bookie": text("Id of the new bookie."),
            "directory": text("Its storage."),
            "region": text("Its region."),
            "rack": text("Its rack."),
        }
    )
)
@session_options
@runs
async def format_(
    session: CommandSession, directory: Path, name: str, rack: str, *, unless_formatted: bool
) -> None:
    """Format an empty DIRECTORY as the storage of a new bookie. Its --region is permanent."""
    region = session.settings.cluster.region
    if not region:
        raise ConfigurationError(
            "no region for the bookie: set --region (it cannot be changed later)"
        )
    store = await open_store(session.metadata_uri())
    try:
        found = None
        if unless_formatted and is_formatted(directory):
            found = await formatted_bookie(directory, store, name=name, region=region)
            minted, rack = found.bookie_id, found.rack
        else:
            minted = await format_bookie(directory, store, name=name, region=region, rack=rack)
    finally:
        await store.close()
    state = "is now" if found is None else "is already"
    print_done(
        {"bookie": minted, "directory": str(directory), "region": region, "rack": rack},
        session.output,
        f"{directory} {state} the storage of bookie {minted} in region {region}, rack {rack}",
    )
    if session.output == TABLE:
        click.echo(minted)


@bookie.command("run")
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@host_option
@port_option
@status_host_option
@status_port_option
@prints(SERVING)
@session_options
@runs
async def run_(session: CommandSession, directory: Path | None) -> None:
    """Serve the storage in DIRECTORY until Ctrl-C or SIGTERM."""
    serve = session.settings.serve
    where = directory or (Path(serve.directory) if serve.directory else None)
    if where is None:
        raise ConfigurationError("no directory: give DIRECTORY, or set [serve] directory")
    if not where.is_dir():
        raise ConfigurationError(f"{where}: no such directory; format it first")
    bound_heap()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with session.server_log(f"{where.name}") as log:
        store = await open_store(session.metadata_uri())
        try:
            async with (
                session.telemetry("rhumbline-bookie") as telemetry,
                running_bookie(
                    where,
                    store,
                    session.settings.bookie,
                    host=serve.host,
                    port=port(session, "bookie"),
                    status_port=status_port(session, "bookie"),
                    status_host=status_host(session),
                    regional_metadata=dict(session.settings.cluster.regional_metadata),
                    observe=telemetry.observe,
                    protection=session.protection,
                    stop=stop.set,
                ) as running,
            ):
                log.source = str(running.bookie_id)
                keep_from_collector()
                address = f"{serve.host}:{running.port}"
                print_serving(
                    session,
                    "bookie",
                    f"bookie {running.bookie_id} serves {where} at {address}",
                    address=address,
                    status_address=show_address(await status_address(store, running.bookie_id)),
                    region=running.region,
                )
                if running.limbo_reason:
                    print_message(
                        f"bookie {running.bookie_id} is in limbo and accepts no adds to the "
                        f"ledgers that it may have lost entries of: {running.limbo_reason}"
                    )
                await stop.wait()
                print_message(f"bookie {running.bookie_id} is stopping")
        finally:
            await store.close()


for _command in (*COMMANDS, inventory):
    bookie.add_command(_command)
