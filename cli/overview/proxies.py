"""The proxies of a cluster: what each accepts, and what it serves now."""

from typing import Any

from ...core.runtime.metadata_store import MetadataStore
from ...proxies.membership import list_members
from ...server.server_directory import ServerRecord, list_servers
from ..output_schema import Schema, flag, integer, maybe, number, text
from .status_documents import NO_STATUS, StatusDocument, parse_address, read_statuses

ROLES = ("write", "read")
ACCEPTING, DRAINING, UNREACHABLE = "accepting", "draining", "unreachable"

PROXY_ROW: dict[str, Schema] = {
    "address": text("host:port for clients."),
    "roles": text("write, read, or both."),
    "region": text("Its region."),
    "mode": text(
        "accepting; draining: it takes no more streams; unreachable: it is registered, and its "
        "status server does not respond.",
        ACCEPTING,
        DRAINING,
        UNREACHABLE,
    ),
    "accepts_streams": flag("False while the proxy is drained."),
    "owned_streams": maybe(integer("Streams that it serves to producers now.")),
    "readers": maybe(integer("Readers that it serves now.")),
    "records": maybe(integer("Records that it appended since it started.")),
    "load": maybe(
        number("Load of its streams now: record sets per second, plus one for each 16 KiB/s.")
    ),
    "cpu_share": maybe(number("CPU time of its process now; 1 is one core.")),
    "queue_ms": maybe(integer("Longest recent delay of its event loop.")),
    "status_address": maybe(text("host:port of its status server.")),
    "operator_address": maybe(
        text("host:port for administrative calls; null: the address for clients serves them.")
    ),
    "version": maybe(text("Version of its program; null: it does not say.")),
}
"""The schema of a row of ``read_proxies``."""


async def read_proxies(store: MetadataStore, role: str | None = None) -> list[dict[str, Any]]:
    """Return the registered proxies by address, with what each reports about itself.

    Raises MetadataUnavailableError.
    """
    found: dict[str, dict[str, Any]] = {}
    for one in ROLES:
        for member in await list_members(store, one):
            row = found.setdefault(member.address, {"roles": "", "region": member.region})
            row["roles"] = f"{row['roles']} {one}".strip()
            row["accepts_streams"] = member.is_accepting
            row["version"] = member.version
            row["operator_address"] = member.operator_address
    chosen = {
        address: row for address, row in found.items() if role is None or role in row["roles"]
    }
    servers = {server.address: server for server in await list_servers(store)}
    statuses = await read_statuses(
        {address: parse_address(_status_address(servers.get(address))) for address in chosen}
    )
    return [
        _row(address, row, _status_address(servers.get(address)), statuses[address])
        for address, row in sorted(chosen.items())
    ]


async def operator_address_of(store: MetadataStore, address: str) -> str:
    """Return where the proxy at an address serves administrative calls, ``address`` if there.

    Raises MetadataUnavailableError.
    """
    for role in ROLES:
        for member in await list_members(store, role):
            if member.address == address and member.operator_address:
                return member.operator_address
    return address


def _status_address(server: ServerRecord | None) -> str:
    return "" if server is None else server.status_address


def _row(
    address: str, row: dict[str, Any], status_address: str, status: StatusDocument
) -> dict[str, Any]:
    writes, reads = (status.statistics.get(role) or {} for role in ROLES)
    measured = status.statistics.get("balance") or {}
    mode = ACCEPTING if row["accepts_streams"] else DRAINING
    if not status.is_known and status is not NO_STATUS:
        mode = UNREACHABLE
    return {
        "address": address,
        "roles": row["roles"],
        "region": row["region"],
        "mode": mode,
        "accepts_streams": row["accepts_streams"],
        "owned_streams": writes.get("streams"),
        "readers": reads.get("readers"),
        "records": writes.get("records"),
        "load": measured.get("load"),
        "cpu_share": measured.get("cpu"),
        "queue_ms": measured.get("queue_ms"),
        "status_address": status_address or None,
        "operator_address": row["operator_address"] or None,
        "version": row["version"] or None,
    }
