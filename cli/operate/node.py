"""``rhumbline node``: ls, stat, drain, undrain, decommission."""

from typing import Any

import click

from ...client.connect import Client
from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import BookieUnavailableError, InvalidArgumentError
from ...server.bookie_host import status_address
from ...server.status_server import fetch_status
from ..options import CommandSession, runs, session_options
from ..output import print_record, print_rows
from ..units import show_bytes
from .draining import decommission, drain, undrain

_STATUS_TIMEOUT_MS = 2_000


@click.group()
def node() -> None:
    """A node is a bookie: a server that stores entries."""


for _command in (drain, undrain, decommission):
    node.add_command(_command)


@node.command()
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """Lists all bookies that the cluster knows, also those that are down."""
    async with session.client(moves_data=False) as client:
        rows = [await _row(client, bookie) for bookie in await client.directory.all_known()]
        print_rows(rows, session.output, empty="no bookie was ever formatted for this cluster")


@node.command()
@click.argument("bookie", required=False)
@session_options
@runs
async def stat(session: CommandSession, bookie: str | None) -> None:
    """Shows the counters of a bookie (its id or its name), or of each that answers."""
    async with session.client(moves_data=False) as client:
        known = await client.directory.all_known()
        wanted = [one for one in known if bookie in (None, one, bookie_name(one))]
        if bookie is not None and not wanted:
            names = ", ".join(known) or "none"
            raise InvalidArgumentError(f"no bookie {bookie}; there are: {names}")
        for one in wanted:
            print_record({"bookie": one, **await _statistics(client, one)}, session.output)


async def _row(client: Client, bookie: BookieId) -> dict[str, Any]:
    directory = client.directory
    row: dict[str, Any] = {
        "bookie": bookie,
        "region": await directory.region_of(bookie) or "unknown",
        "state": "down",
        "address": None,
        "rack": None,
        "free": None,
    }
    try:
        registration = await directory.registration(bookie)
    except BookieUnavailableError:
        return row
    row["state"] = "read-only" if bookie in await directory.read_only() else "up"
    row["address"] = str(registration.address)
    row["rack"] = registration.properties.get("rack")
    row["free"] = show_bytes(registration.free_bytes)
    return row


async def _statistics(client: Client, bookie: BookieId) -> dict[str, Any]:
    address = await status_address(client.store, bookie)
    if address is None:
        return {"status": "serves no figures"}
    try:
        return await fetch_status(*address, "/stat", timeout_ms=_STATUS_TIMEOUT_MS)
    except (OSError, TimeoutError, ValueError) as error:
        host, port = address
        return {"status": f"{host}:{port} does not answer: {error or type(error).__name__}"}
