"""From files and an index to a consistent pair: which of them to believe, and what is left over."""

from ...protocol.bookie_id import BookieId
from ..index.entry_index import MemoryIndex, add_missing
from ..index.tiered_index import TieredIndex
from .file_set import FileSet
from .log_format import LOG_KIND, SORTED_KIND
from .startup import OpenedFiles, open_files, replay_sorted


async def recover(
    files: FileSet, index: TieredIndex, bookie: BookieId, boot_id: str
) -> OpenedFiles:
    """Reads the logs, and everything if the index is not one that the files agree with.

    Afterwards ``index`` has a row for every entry that is there. Raises ForeignDataError,
    DiskFailedError.
    """
    store = index.store
    numbers = await files.numbers(LOG_KIND)
    if store.covered_log > max(numbers, default=0) + 1:
        await store.clear()  # of a later life than these files
    opened = await open_files(files, bookie, boot_id, store.covered_log, index.put)
    is_older = store.sequence < opened.states.manifest.index_sequence
    if store.covered_log and (is_older or opened.lost):
        await store.clear()  # it may name files that are gone
        index.recent = MemoryIndex()
        opened = await open_files(files, bookie, boot_id, 0, index.put)
    if not store.covered_log:
        opened = await _rebuild(files, index, bookie, boot_id, opened)
    return opened


async def _rebuild(
    files: FileSet, index: TieredIndex, bookie: BookieId, boot_id: str, opened: OpenedFiles
) -> OpenedFiles:
    """Adds what only sorted files have to an index that was made of all logs."""
    floor = opened.states.manifest.log_floor
    if any(number < floor for number in await files.numbers(LOG_KIND)):
        # Logs that were sorted, but not removed any more: the sorted files say more.
        index.recent = MemoryIndex()
        opened = await open_files(files, bookie, boot_id, floor, index.put)
    older = MemoryIndex()
    await replay_sorted(files, bookie, opened, older.put)
    add_missing(index, older)
    return opened


async def remove_leftovers(files: FileSet, opened: OpenedFiles) -> None:
    """Files that a step which was cut off left behind, and that nothing refers to."""
    manifest = opened.states.manifest
    logs = await files.numbers(LOG_KIND)
    old = [number for number in logs if number < manifest.log_floor] + opened.unused_logs
    if old:
        await files.remove(LOG_KIND, old)
    listed = await files.numbers(SORTED_KIND)
    unused = [number for number in listed if number not in manifest.sorted_files]
    if unused:
        await files.remove(SORTED_KIND, unused)
