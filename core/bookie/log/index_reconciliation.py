"""Reconciliation of files and index at a start: rebuilds an outdated index, removes leftovers."""

from ...protocol.bookie_id import BookieId
from ..index.entry_index import MemoryIndex, add_missing
from ..index.tiered_index import TieredIndex
from .file_set import FileSet
from .log_format import LOG_KIND, SORTED_KIND
from .startup import OpenedFiles, open_files, replay_sorted


async def reconcile(
    files: FileSet, index: TieredIndex, bookie: BookieId, boot_id: str
) -> OpenedFiles:
    """Replays the logs that the index does not cover; rebuilds the index if it does not match.

    The index is rebuilt from all files if it is older than the manifest requires, is newer than the
    files, or a file was lost (rule BKE-19). Afterwards it has a row for every entry in the files.
    Raises ForeignDataError, DiskFailedError.
    """
    store = index.store
    numbers = await files.numbers(LOG_KIND)
    if store.covered_log > max(numbers, default=0) + 1:
        await store.clear()  # the index is newer than these files
    opened = await open_files(files, bookie, boot_id, store.covered_log, index.put)
    is_older = store.sequence < opened.states.manifest.index_sequence
    if store.covered_log and (is_older or opened.lost):
        await store.clear()  # it may name files that do not exist
        index.recent = MemoryIndex()
        opened = await open_files(files, bookie, boot_id, 0, index.put)
    if not store.covered_log:
        opened = await _rebuild(files, index, bookie, boot_id, opened)
    return opened


async def _rebuild(
    files: FileSet, index: TieredIndex, bookie: BookieId, boot_id: str, opened: OpenedFiles
) -> OpenedFiles:
    """Adds the rows that only sorted files have to an index that was built from all logs."""
    floor = opened.states.manifest.log_floor
    if any(number < floor for number in await files.numbers(LOG_KIND)):
        # These logs were compacted but not removed; the sorted files replace them.
        index.recent = MemoryIndex()
        opened = await open_files(files, bookie, boot_id, floor, index.put)
    older = MemoryIndex()
    await replay_sorted(files, bookie, opened, older.put)
    add_missing(index, older)
    return opened


async def remove_leftovers(files: FileSet, opened: OpenedFiles) -> None:
    """Removes unused files that an interrupted step left behind."""
    manifest = opened.states.manifest
    logs = await files.numbers(LOG_KIND)
    old = [number for number in logs if number < manifest.log_floor] + opened.unused_logs
    if old:
        await files.remove(LOG_KIND, old)
    listed = await files.numbers(SORTED_KIND)
    unused = [number for number in listed if number not in manifest.sorted_files]
    if unused:
        await files.remove(SORTED_KIND, unused)
