"""Registers a server with the feature levels that it knows, and stops it where it may not run."""

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from ...core.metadata.feature_level_store import read_feature_level
from ...core.metadata.feature_levels import KNOWN_LEVELS, LevelRange
from ...core.protocol.errors import FeatureLevelError
from ...core.runtime.event_log import EventLog
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.runtime import Runtime
from ..server_directory import registered_nodes

_LOG = EventLog(__name__)


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
) -> AsyncIterator[None]:
    """Keep the nodes of a server in the global store until the block ends (rule UPG-2).

    Each time they were created, the feature level is read again. ``stop`` is called if this program
    does not know it, or the one to which it is being raised: the process was not registered when
    the command looked for such processes. A server starts while the store cannot be reached, and
    registers later.
    """

    async def check_level() -> None:
        record = await read_feature_level(store)
        try:
            record.check_known(known)
        except FeatureLevelError as error:
            _LOG.error("feature level not supported", error=error)
            stop()

    async with registered_nodes(store, runtime, nodes, check_level):
        yield
