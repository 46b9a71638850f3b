"""Access to the directory of a stopped bookie, for inspection and repair."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from ..client.system_runtime import boot_id, system_runtime
from ..core.bookie.config import BookieConfig
from ..core.bookie.disks.attach_directories import attach_recorded
from ..core.bookie.identity import read_identity
from ..core.bookie.index.index_directory import INDEX_DIRECTORY
from ..core.bookie.storage import Storage
from ..core.protocol.errors import ConfigurationError
from ..core.runtime.disk import Disk
from ..core.runtime.tasks import Tasks
from .bookie_host import in_thread, prefixed_errors
from .posix_disk import DataDisks, PosixDisk

_REPORT_SECONDS = 0.2


@asynccontextmanager
async def stopped_bookie(directory: Path) -> AsyncIterator[Disk]:
    """Open the disk of a stopped bookie; no process can serve it until the block ends.

    Its data directories must be there too. Raises ConfigurationError (no such directory) and
    ForeignDataError (a process serves it, or a data directory is missing). Errors of the block
    about the content are prefixed with the directory.
    """
    _check_exists(directory)
    async with AsyncExitStack() as closing:
        disk = PosixDisk(directory)
        closing.callback(disk.close)
        with prefixed_errors(directory):
            yield await attach_recorded(disk, DataDisks(closing).open)


def _check_exists(directory: Path) -> None:
    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory")


@asynccontextmanager
async def opened_storage(
    directory: Path,
    config: BookieConfig,
    *,
    without_index: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> AsyncIterator[Storage]:
    """Open the storage as a bookie does at its start; changes are durable after the block.

    ``without_index`` removes the index files first. ``on_progress`` is called with the number of
    entries whose rows are in the index so far. Raises as ``stopped_bookie`` and ``Storage.open``.
    """
    async with stopped_bookie(directory) as disk:
        identity = await read_identity(disk)
        where = directory / INDEX_DIRECTORY
        if without_index and where.exists():
            await in_thread(lambda: shutil.rmtree(where))
        config = replace(config, boot_id=config.boot_id or boot_id())
        storage = Storage(system_runtime(), disk, config, identity.bookie_id)
        try:
            async with _reporting(storage, on_progress):
                await storage.open(must_exist=identity.was_opened)
            yield storage
        except BaseException:
            await storage.abandon()
            raise
        await storage.aclose()


@asynccontextmanager
async def _reporting(
    storage: Storage, on_progress: Callable[[int], None] | None
) -> AsyncIterator[None]:
    """Report the number of entries read, every 0.2 s until the block ends."""

    async def report(on_count: Callable[[int], None]) -> None:
        while True:
            await asyncio.sleep(_REPORT_SECONDS)
            on_count(storage.index.row_count)

    tasks = Tasks()
    if on_progress is not None:
        tasks.spawn(report(on_progress), "progress")
    try:
        yield
    finally:
        await tasks.aclose()
