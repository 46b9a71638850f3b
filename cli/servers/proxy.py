"""``rhumbline write-proxy`` and ``rhumbline read-proxy``: run a proxy in one region."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import click

from ...client.connect import connect_proxies
from ...core.log.namespace import Namespace
from ...core.protocol.errors import ConfigurationError
from ...proxies.proxy_uri import parse_advertised
from ...server.proxy_host import running_proxy
from ...server.server_directory import ServerRecord
from ..options import Command, CommandSession, runs, session_options, setting_option
from ..output import print_message
from ..output_schema import prints
from .serving import (
    SERVING,
    announced,
    host_option,
    port,
    port_option,
    status_host,
    status_host_option,
    status_port,
    status_port_option,
)

WRITE, READ = "write", "read"


def _serving_options(command: Command) -> Command:
    for option in (
        prints(SERVING),
        status_host_option,
        status_port_option,
        click.option("--advertise", multiple=True, metavar="[REGION=]HOST:PORT",
                     help="host:port for clients, if it differs from the listening address; "
                          "with a region, for the clients of that region. Repeatable."),
        setting_option("proxy.operator_port", "--operator-port"),
        setting_option("proxy.operator_host", "--operator-host"),
        port_option,
        host_option,
    ):  # fmt: skip
        command = option(command)
    return command


@click.command("write-proxy")
@_serving_options
@click.option("--with-read", is_flag=True, help="Also serve as a read proxy.")
@session_options
@runs
async def write_proxy(session: CommandSession, advertise: tuple[str, ...], with_read: bool) -> None:
    """Accept records of many producers for the streams of a region, until Ctrl-C or SIGTERM.

    On either signal the streams are handed over to the other write proxies first.
    """
    roles = (WRITE, READ) if with_read else (WRITE,)
    await _serve(session, roles, advertise)


@click.command("read-proxy")
@_serving_options
@session_options
@runs
async def read_proxy(session: CommandSession, advertise: tuple[str, ...]) -> None:
    """Read each stream once for all readers of a region, until Ctrl-C or SIGTERM."""
    await _serve(session, (READ,), advertise)


async def _serve(session: CommandSession, roles: Sequence[str], advertise: tuple[str, ...]) -> None:
    config = session.settings.proxy
    kind = f"{roles[0]}-proxy"
    advertised, by_region = parse_advertised(advertise)
    if by_region:
        addresses = {**dict(config.advertised_addresses), **dict(by_region)}
        config = replace(config, advertised_addresses=tuple(sorted(addresses.items())))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with session.server_log(f"{'-'.join(roles)}-proxy") as log:
        async with (
            session.telemetry("rhumbline-proxy") as telemetry,
            session.client(tracer=telemetry.tracer) as client,
            running_proxy(
                client,
                config,
                roles=roles,
                host=session.settings.serve.host,
                port=port(session, kind),
                advertised=advertised or config.advertised_address,
                status_port=status_port(session, kind),
                status_host=status_host(session),
                observe=telemetry.observe,
                protection=session.protection,
            ) as running,
        ):
            log.source = f"{'-'.join(roles)}-proxy@{running.address}"
            region = f" in region {client.region}" if client.region else ""
            server = ServerRecord(
                kind, running.address, running.status_address, client.region or ""
            )
            message = f"{' and '.join(roles)} proxy serves at {running.address}{region}"
            operators = running.operator_address
            if operators:
                message += f" and operators at {operators}"
            async with announced(session, client, message, server, operators):
                await stop.wait()
            print_message(f"{' and '.join(roles)} proxy at {running.address} is stopping")


@asynccontextmanager
async def namespace_via(session: CommandSession, via: str | None) -> AsyncIterator[Namespace]:
    """Open the namespace that a command works on, through the proxies ``via`` if given."""
    async with session.telemetry("rhumbline-stream") as telemetry:
        if via is None:
            async with session.client(tracer=telemetry.tracer) as direct:
                telemetry.observe("client", direct.statistics)
                yield direct.namespace()
            return
        if session.loaded.sources.get("cluster.metadata") == "option":
            raise ConfigurationError("--via and --metadata are mutually exclusive")
        client = connect_proxies(
            via,
            namespace=session.settings.cluster.namespace,
            tracer=telemetry.tracer,
            region=session.settings.cluster.region,
            discovery=session.settings.discovery,
            credentials=session.protection.connecting,
            token=session.token(),
        )
        telemetry.observe("client", client.statistics)
        async with client:
            # It has all methods of the core namespace that appending and reading need.
            yield cast(Namespace, client.namespace())


via_option = click.option(
    "--via", help="Use proxies: grpc://host:port,host:port, or grpc+srv://name."
)
