"""``rhumbline dev``: a cluster of several regions in one process, kept in one directory."""

import asyncio
import itertools
import signal
from collections.abc import Sequence
from pathlib import Path

import click

from ...core.log.namespace import create_namespace
from ...core.log.policy import StreamPolicy
from ...core.protocol.bookie_id import check_region
from ...core.protocol.errors import InvalidArgumentError, NamespaceExistsError
from ..config_file import DEV_DIRECTORY
from ..options import runs
from ..output import say
from ..streams.policy_options import default_quorum
from .local_cluster import LocalCluster

_REGIONS = "bonn,oslo,rome"
_NAMESPACE = "default"
_CONFIG = """\
# Written by `rhumbline dev`; commands that run beside this directory find it by themselves.
[cluster]
metadata = "{metadata}"
namespace = "{namespace}"
region = "{region}"
"""


@click.command()
@click.argument("directory", default=DEV_DIRECTORY, type=click.Path(path_type=Path))
@click.option("--regions", help=f"Names, separated by commas.  [default: {_REGIONS}]")
@click.option("--bookies", type=click.IntRange(1, 20), default=2, show_default=True,
              help="Bookies in each region.")  # fmt: skip
@click.option("--rtt", type=click.IntRange(0, 2000), default=0, show_default=True,
              help="Emulated round trip between regions in ms.")  # fmt: skip
@runs
async def dev(directory: Path, regions: str | None, bookies: int, rtt: int) -> None:
    """Runs a cluster of three regions until Ctrl-C, and keeps it in DIRECTORY.

    A second start finds what the first one stored. Other commands find the cluster when they run
    in the same place, or with --config DIRECTORY/rhumbline.toml.
    """
    names = _region_names(regions) if regions else _known_regions(directory) or _split(_REGIONS)
    pairs = itertools.combinations(names, 2)
    cluster = LocalCluster(
        directory,
        names,
        bookies_per_region=bookies,
        round_trips_ms=dict.fromkeys(pairs, rtt) if rtt else {},
        serves_status=True,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    file = _prepare(directory, cluster.metadata_uri, names[0])
    async with cluster:
        await _ensure_namespace(cluster, names[0])
        for item in cluster.bookies:
            if item.bookie is not None:
                say(f"  {item.bookie.bookie_id:24} region {item.region:12} port {item.bookie.port}")
        say(f"the cluster is up, its data is in {directory}/; Ctrl-C stops it. Beside it, try:")
        where = "" if directory == Path(DEV_DIRECTORY) else f" --config {file}"
        say(f"  rhumbline stream create greetings{where}")
        say(f"  echo hello | rhumbline stream append greetings{where}")
        say(f"  rhumbline stream tail -f greetings{where}")
        await stop.wait()
        say("stopping")


def _prepare(directory: Path, metadata: str, region: str) -> Path:
    """Makes the directory, and the file in it by which other commands find the cluster."""
    file = directory / "rhumbline.toml"
    text = _CONFIG.format(metadata=metadata, namespace=_NAMESPACE, region=region)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(f"{file}: {error.strerror}") from error
    return file


async def _ensure_namespace(cluster: LocalCluster, region: str) -> None:
    async with cluster.client(region, namespace=_NAMESPACE) as client:
        quorum = default_quorum(await client.directory.configured())
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
        raise InvalidArgumentError(f"--regions {text}: a region is named twice")
    return names


def _split(text: str) -> Sequence[str]:
    return tuple(part.strip() for part in text.split(","))


def _known_regions(directory: Path) -> Sequence[str]:
    """The regions of the bookies that an earlier start left."""
    found = sorted(path.name.rpartition("-")[0] for path in directory.glob("bookies/*-*"))
    return tuple(dict.fromkeys(found))
