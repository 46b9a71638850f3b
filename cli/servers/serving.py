"""The parts that every server command has: its addresses, and the port of its status server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...client.connect import Client
from ...core.protocol.errors import ConfigurationError
from ...server.listening_address import published_host
from ...server.ports import port_of, status_port_of
from ...server.server_directory import ServerRecord
from ...server.status_server import StatusServer
from ...server.upgrade.process_versions import nodes_of
from ...server.upgrade.registered_process import registered_process
from ..options import CommandSession, setting_option
from ..output import print_done
from ..output_schema import Schema, done, maybe, text
from .service_manager import notify_ready

SERVING: Schema = done(
    {
        "server": text("Kind of the server.", "bookie", "write-proxy", "read-proxy", "repair",
                       "archive"),
        "address": maybe(text("host:port for clients; null if it has no clients.")),
        "operator_address": maybe(
            text("host:port of the listener for administrative calls, if a proxy has one.")
        ),
        "status_address": text("host:port with /livez, /readyz, /stat and /metrics."),
        "region": maybe(text("Region of the server, if it has one.")),
    }
)  # fmt: skip
"""The schema of what a server prints when it is ready."""

host_option = setting_option("serve.host", "--host")
port_option = setting_option("serve.port", "--port")
status_host_option = setting_option("serve.status_host", "--status-host")
status_port_option = setting_option("serve.status_port", "--status-port")


def port(session: CommandSession, kind: str) -> int:
    """Return the port of this server for its clients; 0 selects a free one."""
    return port_of(kind, session.settings.serve.port)


def status_host(session: CommandSession) -> str:
    """Return the address of this server's status server."""
    serve = session.settings.serve
    return serve.status_host or serve.host


def status_port(session: CommandSession, kind: str) -> int:
    """Return the port of this server's status server; 0 selects a free one."""
    return status_port_of(kind, session.settings.serve.status_port)


def show_address(address: tuple[str, int] | None) -> str:
    """Return host:port, or an empty string for None."""
    return "" if address is None else f"{address[0]}:{address[1]}"


async def start_status(server: StatusServer, session: CommandSession, kind: str) -> str:
    """Start the status server and return its address. Raises ConfigurationError if it is in use."""
    host, port = status_host(session), status_port(session, kind)
    try:
        port = await server.start(host, port)
    except OSError as error:
        raise ConfigurationError(
            f"cannot serve metrics on {host}:{port}: {error.strerror or error}; choose another "
            "--status-port (0: a free one)"
        ) from error
    return f"{published_host(host)}:{port}"


@asynccontextmanager
async def announced(
    session: CommandSession,
    client: Client,
    message: str,
    record: ServerRecord,
    operator_address: str = "",
) -> AsyncIterator[None]:
    """Say that a server is ready, and keep it in the list of servers until the block ends."""
    own = await client.own_regional_store()  # the global store may be out of reach then
    store = client.store if own is None else client.late_global_store()
    async with registered_process(store, client.runtime, nodes_of(record)):
        print_serving(
            session,
            record.kind,
            message,
            address=record.address or None,
            operator_address=operator_address or None,
            status_address=record.status_address,
            region=record.region,
        )
        yield


def print_serving(
    session: CommandSession,
    server: str,
    message: str,
    *,
    status_address: str,
    address: str | None = None,
    operator_address: str | None = None,
    region: str | None = None,
) -> None:
    """Say that the server is ready, and where: to the user and to the service manager."""
    print_done(
        {
            "server": server,
            "address": address,
            "operator_address": operator_address,
            "status_address": status_address,
            "region": region or None,
        },
        session.output,
        f"{message} (status at {session.protection.status_scheme}://{status_address})",
    )
    notify_ready(message)
