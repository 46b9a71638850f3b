"""``rhumbline dev``: a development cluster of several regions in one process and directory."""

import asyncio
import itertools
import os
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import click

from ...client.settings import LogSettings
from ...core.log.namespace import create_namespace
from ...core.log.policy import StreamPolicy
from ...core.protocol.bookie_id import check_region
from ...core.protocol.errors import InvalidArgumentError, NamespaceExistsError
from ...security.principal import Role
from ...security.settings import TlsSettings
from ...server.ports import PORTS
from ...tls.authority import SERVER_NAME, Authority
from ...tls.credentials import TlsCredentials
from ...tls.protection import UNPROTECTED, Protection
from ..config_file import DEV_DIRECTORY
from ..options import runs
from ..output import TABLE, output_option, print_done, print_message
from ..output_schema import done, listing, maybe, prints, record, text
from ..server_log import server_log
from ..streams.policy_options import default_quorum
from ..waiting import timeout_option, wait_until
from .dev_process import DevProcess, locked, running_process
from .local_cluster import HOST, LocalCluster
from .local_console import start_console

_REGIONS = "bonn,oslo,rome"
_NAMESPACE = "default"
_CONFIG = """\
# Written by `rhumbline dev`. Commands that run in the parent directory read it by default.
[cluster]
metadata = "{metadata}"
namespace = "{namespace}"
region = "{region}"
"""


_TLS = "tls"
_TLS_CONFIG = """
[tls]
certificate = "{directory}/server.pem"
key = "{directory}/server.key"
ca = "{directory}/ca.pem"
server_name = "{name}"
"""
_DAYS, _CA_DAYS = 90, 3650


_BOOKIE = record(
    {
        "bookie": text("Id of the bookie."),
        "region": text("Its region."),
        "address": text("host:port of the bookie."),
        "status_address": text("host:port of its status server."),
    }
)


@click.command()
@click.argument("directory", default=DEV_DIRECTORY, type=click.Path(path_type=Path))
@click.option("--regions", help=f"Names of the regions, separated by commas. [default: {_REGIONS}]")
@click.option("--bookies", type=click.IntRange(1, 20), default=2, show_default=True,
              help="Bookies in each region.")  # fmt: skip
@click.option("--rtt", type=click.IntRange(0, 2000), default=0, show_default=True,
              help="Emulated round trip between regions in ms.")  # fmt: skip
@click.option("--tls", "uses_tls", is_flag=True,
              help="Encrypt all connections, with certificates made in DIRECTORY/tls.")  # fmt: skip
@click.option("--console", "shows_console", is_flag=True,
              help="Also serve the web console.")  # fmt: skip
@click.option("--console-port", type=click.IntRange(0, 65535), default=PORTS["console"],
              show_default=True, help="Port of the console; 0 selects a free one.")  # fmt: skip
@click.option("--wait", "waits", is_flag=True,
              help="Do not start a cluster; wait until the one in DIRECTORY is ready.")  # fmt: skip
@click.option("--stop", "stops", is_flag=True,
              help="Do not start a cluster; stop the one in DIRECTORY.")  # fmt: skip
@timeout_option
@prints(
    done(
        {
            "directory": text("Directory of the cluster."),
            "config": maybe(text("Settings file for other commands.")),
            "metadata": maybe(text("URI of the metadata store.")),
            "bookies": listing(_BOOKIE, "The bookies, if this process serves them."),
            "console": maybe(text("Address of the web console, if this process serves it.")),
        }
    )
)
@output_option
@runs
async def dev(
    directory: Path, regions: str | None, bookies: int, rtt: int, waits: bool, stops: bool,
    timeout_ms: int, output: str, uses_tls: bool, shows_console: bool, console_port: int,
) -> None:  # fmt: skip
    """Run a cluster of three regions until Ctrl-C, with its data in DIRECTORY.

    A later start in the same DIRECTORY continues with the stored data. Other commands find the
    cluster if they run in the same working directory, or with --config DIRECTORY/rhumbline.toml.
    """
    if waits and stops:
        raise click.UsageError("--wait and --stop are mutually exclusive")
    if waits:
        _report(directory, output, await _wait_until_ready(directory, timeout_ms))
    elif stops:
        _report(directory, output, await _stop(directory, timeout_ms))
    else:
        if shows_console and uses_tls:
            raise click.UsageError("--console and --tls are mutually exclusive")
        port = console_port if shows_console else None
        await _serve(directory, regions, bookies, rtt, output, uses_tls=uses_tls, port=port)


def _report(directory: Path, output: str, message: str) -> None:
    document: dict[str, object] = {
        "directory": str(directory),
        "config": None,
        "metadata": None,
        "bookies": [],
        "console": None,
    }
    print_done(document, output, message)


async def _wait_until_ready(directory: Path, timeout_ms: int) -> str:
    await wait_until(
        partial(_running, directory),
        lambda process: process is not None and process.is_ready,
        timeout_ms=timeout_ms,
        describe=lambda process: (
            f"no `rhumbline dev` serves {directory}"
            if process is None
            else f"the cluster in {directory} (process {process.pid}) is starting"
        ),
    )
    return f"the cluster in {directory} is ready"


async def _stop(directory: Path, timeout_ms: int) -> str:
    process = running_process(directory)
    if process is None:
        return f"no cluster runs in {directory}"
    os.kill(process.pid, signal.SIGTERM)
    await wait_until(
        partial(_running, directory),
        lambda found: found is None,
        timeout_ms=timeout_ms,
        describe=lambda _: f"process {process.pid} still serves {directory}",
    )
    return f"the cluster in {directory} is stopped"


async def _running(directory: Path) -> DevProcess | None:
    return running_process(directory)


async def _serve(
    directory: Path, regions: str | None, bookies: int, rtt: int, output: str, *, uses_tls: bool,
    port: int | None,
) -> None:  # fmt: skip
    """Serve a cluster, and a console at ``port`` unless that is None."""
    names = _region_names(regions) if regions else _known_regions(directory) or _split(_REGIONS)
    pairs = itertools.combinations(names, 2)
    cluster = LocalCluster(
        directory,
        names,
        bookies_per_region=bookies,
        round_trips_ms=dict.fromkeys(pairs, rtt) if rtt else {},
        serves_status=True,
        protection=_protection(directory / _TLS) if uses_tls else UNPROTECTED,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    file = _prepare(directory, cluster.metadata_uri, names[0], uses_tls=uses_tls)
    async with AsyncExitStack() as closing:
        closing.enter_context(server_log("dev", LogSettings(level="warning")))
        lock = closing.enter_context(locked(directory))
        await closing.enter_async_context(cluster)
        await _ensure_namespace(cluster, names[0])
        url = None
        if port is not None:
            url = await start_console(closing, cluster, names[0], _NAMESPACE, port)
        _print_started(directory, file, cluster, output, url)
        lock.set_ready()
        await stop.wait()
        print_message("stopping")


def _print_started(
    directory: Path, file: Path, cluster: LocalCluster, output: str, url: str | None
) -> None:
    shown = [
        {
            "bookie": local.bookie.bookie_id,
            "region": local.region,
            "address": f"{HOST}:{local.bookie.port}",
            "status_address": local.status_address,
        }
        for local in cluster.bookies
        if local.bookie is not None
    ]
    if output != TABLE:
        document = {"directory": str(directory), "config": str(file), "bookies": shown}
        message = "the cluster is up"
        place = {"metadata": cluster.metadata_uri, "console": url}
        print_done({**document, **place}, output, message)
        return
    for row in shown:
        print_message(
            f"  {row['bookie']:24} region {row['region']:12} address {row['address']}  "
            f"status {cluster.protection.status_scheme}://{row['status_address']}"
        )
    if url is not None:
        print_message(f"the console is at {url}")
    print_message(
        f"the cluster is up; its data is in {directory}/; Ctrl-C stops it. In another shell:"
    )
    where = "" if directory == Path(DEV_DIRECTORY) else f" --config {file}"
    print_message(f"  rhumbline stream create greetings{where}")
    print_message(f"  echo hello | rhumbline stream append greetings{where}")
    print_message(f"  rhumbline stream tail -f greetings{where}")


def _protection(directory: Path) -> Protection:
    """Make an authority and certificates in ``directory``, and use that of the servers."""
    authority = Authority(directory)
    authority.create(trust_domain="dev", days=_CA_DAYS)
    roles = (Role.BOOKIE, Role.PROXY, Role.REPAIR)
    issued = authority.issue("server", roles, hosts=(HOST,), days=_DAYS)
    settings = TlsSettings(
        certificate=str(issued.certificate),
        key=str(issued.key),
        ca=str(authority.certificate_file),
        server_name=SERVER_NAME,
    )
    return Protection(TlsCredentials(settings))


def _prepare(directory: Path, metadata: str, region: str, *, uses_tls: bool) -> Path:
    """Create the directory and its settings file, through which other commands find the cluster."""
    file = directory / "rhumbline.toml"
    text = _CONFIG.format(metadata=metadata, namespace=_NAMESPACE, region=region)
    if uses_tls:
        text += _TLS_CONFIG.format(directory=(directory / _TLS).resolve(), name=SERVER_NAME)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(f"{file}: {error.strerror}") from error
    return file


async def _ensure_namespace(cluster: LocalCluster, region: str) -> None:
    async with cluster.client(region, namespace=_NAMESPACE) as client:
        quorum = default_quorum(await client.directory.in_usable_regions())
        try:
            await create_namespace(
                client.store, client.runtime, _NAMESPACE, StreamPolicy(quorum=quorum)
            )
        except NamespaceExistsError:
            return


def _region_names(text: str) -> Sequence[str]:
    names = _split(text)
    for name in names:
        check_region(name)
    if len(set(names)) != len(names):
        raise InvalidArgumentError(f"--regions {text}: a region occurs twice")
    return names


def _split(text: str) -> Sequence[str]:
    return tuple(part.strip() for part in text.split(","))


def _known_regions(directory: Path) -> Sequence[str]:
    """Return the regions of the bookies that an earlier start formatted."""
    found = sorted(path.name.rpartition("-")[0] for path in directory.glob("bookies/*-*"))
    return tuple(dict.fromkeys(found))
