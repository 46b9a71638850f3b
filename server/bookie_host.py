"""Formats and runs a bookie in this process, with its status server."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..access.access_control import AccessControl, access_control_of
from ..backends.open_store import open_store
from ..client.system_runtime import boot_id, system_runtime
from ..core.bookie.bookie import Bookie
from ..core.bookie.config import BookieConfig
from ..core.bookie.disks.attach_directories import attach_configured
from ..core.bookie.disks.lost_files import LostFiles
from ..core.bookie.identity import (
    IDENTITY_FILE,
    Identity,
    check_identity,
    format_storage,
    read_identity,
)
from ..core.metadata.bookie_directory import BookieDirectory
from ..core.metadata.cluster_layout import ROOT
from ..core.metadata.declared_regions import check_declared, read_declared_regions
from ..core.metadata.ledger_store import LedgerStore
from ..core.metadata.measured_store import MeasuredStore
from ..core.metadata.regional_store import RegionalStore
from ..core.protocol.bookie_id import BookieId, Region, bookie_name
from ..core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    NodeExistsError,
    NoNodeError,
    WrongClusterError,
)
from ..core.runtime.metadata_store import MetadataStore
from ..core.runtime.metrics import Statistics
from ..core.runtime.runtime import Runtime
from ..core.runtime.tasks import Tasks
from ..security.settings import GRANTED
from ..tls.protection import UNPROTECTED, Protection, certificate_statistics
from .clients.bookie_audit import BookieAudit
from .clients.bookie_clients import BookieClients
from .listening_address import check_advertised, published_host, warn_of_loopback
from .posix_disk import DataDisks, PosixDisk
from .replica_reads import ReplicaReads, ReplicaReadsOfStores
from .status_server import StatusServer
from .upgrade.registered_process import admitted_bookie, end_this_process

_STATUS_ROOT = f"{ROOT}/rhumbline/status"


def is_formatted(directory: Path) -> bool:
    """Return whether ``directory`` is the storage of a bookie."""
    return (directory / IDENTITY_FILE).exists()


async def format_bookie(
    directory: Path, store: MetadataStore, *, name: str, region: str, rack: str
) -> BookieId:
    """Format an empty directory as the storage of a new bookie of the cluster in ``store``.

    Raises ForeignDataError (not empty, or in use), InvalidArgumentError (invalid name or label),
    ConfigurationError (the cluster does not have the region), WrongClusterError if ``store`` has no
    cluster or is a regional one, DiskFailedError, MetadataError.
    """
    async with AsyncExitStack() as closing:
        bookies = BookieDirectory(store)
        closing.callback(bookies.close)
        instance = await bookies.global_instance_id()
        check_declared(region, await read_declared_regions(store), f"bookie {name}")
        disk = PosixDisk(directory)
        closing.callback(disk.close)
        with prefixed_errors(directory):
            return await format_storage(
                disk, system_runtime(), name, region, rack, instance, bookies
            )


async def formatted_bookie(
    directory: Path, store: MetadataStore, *, name: str, region: str
) -> Identity:
    """Return the identity of ``directory``, which must be that of bookie ``name`` in ``region``.

    Raises ForeignDataError (not formatted, in use, another name or region), WrongClusterError (not
    a bookie of the cluster in ``store``), CorruptionError, MetadataError.
    """
    async with AsyncExitStack() as closing:
        bookies = BookieDirectory(store)
        closing.callback(bookies.close)
        disk = PosixDisk(directory)
        closing.callback(disk.close)
        with prefixed_errors(directory):
            identity = await read_identity(disk)
            await check_identity(identity, bookies)
            if (bookie_name(identity.bookie_id), identity.region) != (name, region):
                raise ForeignDataError(
                    f"the directory holds bookie {identity.bookie_id} in region {identity.region}, "
                    f"not {name} in {region}"
                )
    return identity


@asynccontextmanager
async def running_bookie(
    directory: Path,
    store: MetadataStore,
    config: BookieConfig,
    *,
    host: str,
    port: int,
    status_port: int | None = None,
    status_host: str = "",
    regional_metadata: Mapping[str, str] | None = None,
    open_disk: Callable[[Path], PosixDisk] = PosixDisk,
    observe: Callable[[str, Statistics], None] | None = None,
    protection: Protection = UNPROTECTED,
    stop: Callable[[], None] = end_this_process,
) -> AsyncIterator[Bookie]:
    """Run a bookie until the block ends; then it stops in an orderly way.

    ``store`` is the global metadata store, and ``regional_metadata`` has the URIs of regional ones
    by region, of which the bookie opens that of its own region.

    Its metrics are served at ``status_port`` (0: a free port; None: not at all) of ``status_host``,
    which is ``host`` if it is empty. ``open_disk`` lets
    callers observe writes. ``observe`` is called with the service name and the function that
    returns its statistics. ``stop`` is called if the feature level of the cluster was raised to one
    that this program does not know. Raises ForeignDataError, CorruptionError, WrongClusterError,
    FeatureLevelError, DiskFullError, DiskFailedError, MetadataError, and ConfigurationError (a port
    in use, a wildcard address without an advertised one, an address of a network without TLS, or a
    region that the cluster does not have).
    """
    check_advertised(
        host, config.advertised_host, "set the address for clients with [bookie] advertised_host"
    )
    protection.check_address(host, "the bookie")
    async with AsyncExitStack() as closing:
        disk = open_disk(directory)
        closing.callback(disk.close)
        store = measured = MeasuredStore(store)
        ledgers, bookies = LedgerStore(store), BookieDirectory(store)
        closing.callback(bookies.close)
        config = replace(config, boot_id=config.boot_id or boot_id())
        runtime = system_runtime(None, protection.credentials)
        gate = protection.bookie_gate()
        if gate is not None:
            closing.callback(gate.close)
        with prefixed_errors(directory):
            regional = await _regional_store(disk, regional_metadata or {}, closing)
            opener = DataDisks(closing).open
            whole = await attach_configured(disk, config, opener, runtime.random)
            bookie = await Bookie.open(
                runtime,
                whole,
                config,
                ledgers,
                bookies,
                holder=f"{config.boot_id}/{disk.lock_name}" if config.boot_id else "",
                regional=regional,
            )
        closing.push_async_callback(bookie.aclose)
        clients = BookieClients(dict(protection.security.roles))
        bookie.service.on_refused = BookieAudit(protection.audit, clients).refused
        access = await _access_control(store, protection, closing)
        if access is not None:
            bookie.service.clients.permissions_of = partial(clients.permissions_of, access)
        views = [(ledgers, bookies)]
        if regional is not None:
            views.append((regional.ledgers, regional.directory))
        bookie.scrubber.fetch = _replica_reads(runtime, views, bookie.region, closing).fetch
        lost = LostFiles(whole, bookie, config.data_dir_check_ms)

        def statistics() -> dict[str, Any]:
            return {
                **bookie.statistics(),
                **lost.statistics(),
                "durable_writes": disk.syncs.summary(),
                "client": {"metadata": measured.statistics()},
                "tls": certificate_statistics(protection),
                "gate": None if gate is None else gate.statistics(),
                "access": None if access is None else access.statistics(),
            }

        if observe is not None:
            observe("bookie", statistics)
        if status_port is not None:
            at = status_host or host
            server = StatusServer(statistics, lambda: _not_ready(bookie), protection=protection)
            closing.push_async_callback(server.aclose)
            try:
                status_port = await server.start(at, status_port)
            except OSError as error:
                raise ConfigurationError(
                    f"cannot serve metrics on {at}:{status_port}: {error.strerror or error}; "
                    "choose another status port"
                ) from error
            await _publish_status_address(
                store, bookie.bookie_id, published_host(at, config.advertised_host), status_port
            )
        await closing.enter_async_context(admitted_bookie(store, runtime, bookie.bookie_id, stop))
        await bookie.serve(host, port, security=gate)
        _spawn(lost.run(), "lost files", closing)
        warn_of_loopback(bookie.bookie_id, config.advertised_host or host, store.uri)
        yield bookie


def _spawn(work: Coroutine[Any, Any, None], name: str, closing: AsyncExitStack) -> None:
    """Run a task until ``closing``."""
    tasks = Tasks()
    closing.push_async_callback(tasks.aclose)
    tasks.spawn(work, name)


def _replica_reads(
    runtime: Runtime,
    views: Sequence[tuple[LedgerStore, BookieDirectory]],
    region: Region,
    closing: AsyncExitStack,
) -> ReplicaReadsOfStores:
    """Return reads of other copies by the metadata of several stores, until ``closing``."""
    replicas = {}
    for ledgers, bookies in views:
        reads = replicas[ledgers.number] = ReplicaReads(runtime, ledgers, bookies, region)
        closing.push_async_callback(reads.aclose)
    return ReplicaReadsOfStores(replicas)


async def _access_control(
    store: MetadataStore, protection: Protection, closing: AsyncExitStack
) -> AccessControl | None:
    """Return the control that decides what applications may do, until ``closing``."""
    if protection.security.bookie_clients != GRANTED:
        return None
    access = access_control_of(store, protection.security)
    closing.push_async_callback(access.aclose)
    await access.start()
    return access


async def _regional_store(
    disk: PosixDisk, uris: Mapping[str, str], closing: AsyncExitStack
) -> RegionalStore | None:
    """Open the metadata store of the bookie's region, until ``closing``; None if it has none."""
    region = (await read_identity(disk)).region
    if region not in uris:
        return None
    store = await open_store(uris[region])
    closing.push_async_callback(store.close)
    regional = await RegionalStore.open(store, region)
    closing.callback(regional.close)
    return regional


async def status_address(store: MetadataStore, bookie: BookieId) -> tuple[str, int] | None:
    """Return the last published address of a bookie's status server; the bookie may be down."""
    try:
        value = await store.get(f"{_STATUS_ROOT}/{bookie}")
    except NoNodeError:
        return None
    host, _, port = value.data.decode().rpartition(":")
    return host, int(port)


async def _publish_status_address(
    store: MetadataStore, bookie: BookieId, host: str, port: int
) -> None:
    path = f"{_STATUS_ROOT}/{bookie}"
    data = f"{host}:{port}".encode()
    try:
        await store.create(path, data)
    except NodeExistsError:
        await store.put(path, data)


@contextmanager
def prefixed_errors(directory: Path) -> Iterator[None]:
    """Prefix errors about the content of ``directory`` with its name."""
    try:
        yield
    except (ForeignDataError, CorruptionError, WrongClusterError) as error:
        raise type(error)(f"{directory}: {error}") from error


def in_thread(work: Callable[[], Any]) -> Awaitable[Any]:
    """Run a blocking function in a thread."""
    return asyncio.get_running_loop().run_in_executor(None, work)


def _not_ready(bookie: Bookie) -> str | None:
    found = bookie.statistics()
    if found["failure"] is not None:
        return str(found["failure"])
    if found["read_only"]:
        return "read-only"
    return None if found["registered"] else "not registered in the metadata store"
