"""Registers a server with the feature levels that it knows, and stops it where it may not run."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from ...core.metadata.feature_level_store import read_feature_level
from ...core.metadata.feature_levels import KNOWN_LEVELS, LevelRange
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import FeatureLevelError, MetadataUnavailableError
from ...core.runtime.event_log import EventLog
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.runtime import Runtime
from ..server_directory import registered_nodes
from .process_versions import nodes_of_bookie

_LOG = EventLog(__name__)

ADMISSION_S_MAX = 30.0
"""Time in which a bookie that starts has to register the levels that it knows."""


def end_this_process() -> None:
    """Ask this process to stop in an orderly way, as a service manager does."""
    signal.raise_signal(signal.SIGTERM)


@asynccontextmanager
async def registered_process(
    store: MetadataStore,
    runtime: Runtime,
    nodes: Mapping[str, bytes],
    stop: Callable[[], None] = end_this_process,
    *,
    known: LevelRange = KNOWN_LEVELS,
) -> AsyncIterator["asyncio.Future[None]"]:
    """Keep the nodes of a server in the global store until the block ends (rule UPG-2).

    Each time they were created, the feature level is read again. ``stop`` is called if this program
    does not know it, or the one to which it is being raised: the process was not registered when
    the command looked for such processes. A server starts while the store cannot be reached, and
    registers later.

    The block gets a future that is done after the first time. It has FeatureLevelError if the
    program does not know the level.
    """
    admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def check_level() -> None:
        record = await read_feature_level(store)
        try:
            record.check_known(known)
        except FeatureLevelError as error:
            _LOG.error("feature level not supported", error=error)
            if not admission.done():
                admission.set_exception(error)
                admission.exception()  # few wait for it
            stop()
        else:
            if not admission.done():
                admission.set_result(None)

    async with registered_nodes(store, runtime, nodes, check_level):
        yield admission


@asynccontextmanager
async def admitted_bookie(
    store: MetadataStore,
    runtime: Runtime,
    bookie: BookieId,
    stop: Callable[[], None] = end_this_process,
    *,
    known: LevelRange = KNOWN_LEVELS,
) -> AsyncIterator[None]:
    """As ``registered_process``; the block begins once the bookie may serve (rule UPG-2).

    Raises FeatureLevelError if this program does not know the level, and MetadataUnavailableError
    if the bookie could not be registered in time.
    """
    async with registered_process(
        store, runtime, nodes_of_bookie(bookie, known), stop, known=known
    ) as admission:
        try:
            async with asyncio.timeout(ADMISSION_S_MAX):
                await admission
        except TimeoutError as error:
            raise MetadataUnavailableError(
                f"bookie {bookie} could not register its feature levels in {ADMISSION_S_MAX:g} s"
            ) from error
        yield
