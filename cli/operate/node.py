"""``rhumbline node``: ls, stat, drain, undrain, decommission."""

from typing import Any

import click

from ...client.connect import Client
from ...client.units import show_bytes
from ...core.protocol.bookie_id import BookieId, bookie_name
from ...core.protocol.errors import BookieUnavailableError, InvalidArgumentError
from ...server.bookie_host import status_address
from ...server.status_server import fetch_status
from ..options import CommandSession, runs, session_options
from ..output import print_record, print_rows
from ..waiting import wait_count_options, wait_until
from .draining import decommission, drain, undrain

_STATUS_TIMEOUT_MS = 2_000


@click.group()
def node() -> None:
    """Show, drain and decommission nodes, which are the bookies."""


for _command in (drain, undrain, decommission):
    node.add_command(_command)


@node.command()
@wait_count_options("bookies that are up")
@session_options
@runs
async def ls(session: CommandSession, wait_count: int | None, timeout_ms: int) -> None:
    """List all bookies of the cluster, including those that are down."""
    async with session.client(moves_data=False) as client:

        async def check() -> list[dict[str, Any]]:
            return [await _row(client, bookie) for bookie in await client.directory.all_known()]

        def count_up(rows: list[dict[str, Any]]) -> int:
            return sum(row["state"] == "up" for row in rows)

        rows = await wait_until(
            check,
            lambda rows: count_up(rows) >= (wait_count or 0),
            timeout_ms=timeout_ms,
            describe=lambda rows: f"{count_up(rows)} of {wait_count} bookies are up",
        )
        print_rows(rows, session.output, empty="no bookie is formatted for this cluster")


@node.command()
@click.argument("bookie", required=False)
@session_options
@runs
async def stat(session: CommandSession, bookie: str | None) -> None:
    """Show the statistics of a bookie (by id or name), or of every bookie."""
    async with session.client(moves_data=False) as client:
        known = await client.directory.all_known()
        wanted = [
            known_id for known_id in known if bookie in (None, known_id, bookie_name(known_id))
        ]
        if bookie is not None and not wanted:
            names = ", ".join(known) or "none"
            raise InvalidArgumentError(f"unknown bookie {bookie}; the bookies are: {names}")
        for bookie_id in wanted:
            print_record(
                {"bookie": bookie_id, **await _statistics(client, bookie_id)}, session.output
            )


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
        return {"status": "no status server"}
    try:
        return await fetch_status(*address, "/stat", timeout_ms=_STATUS_TIMEOUT_MS)
    except (OSError, TimeoutError, ValueError) as error:
        host, port = address
        return {"status": f"{host}:{port} does not respond: {error or type(error).__name__}"}
