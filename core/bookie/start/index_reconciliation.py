"""Reconciliation of data files and index files at a start, and the removal of leftovers.

Every data file in use gets its rows: from its intact index file, from the replay, or by reading the
data file, whose index file is then written again. After the loss of the newest manifest, intact
sorted files that the older manifest does not name are adopted. Nothing is removed while damage is
known (rule BKE-19).
"""

import asyncio

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, DiskFullError
from ..index.index_directory import IndexDirectory
from ..index.tiered_index import TieredIndex
from ..log.file_rows import read_rows
from ..log.file_set import FileSet
from ..log.log_format import LOG_KIND, SORTED_KIND
from ..log.sorted_file import SortedFile
from .startup import OpenedFiles, read_header, read_ledger_bytes


def rank_of(number: int, known: SortedFile | None) -> tuple[int, int]:
    """Return the rank of a data file: logs are newer than all sorted files.

    The oldest log is compacted first, and a rewritten sorted file keeps its age.
    """
    return (1, number) if known is None else (0, known.age)


async def reconcile(
    files: FileSet,
    index: TieredIndex,
    directory: IndexDirectory,
    bookie: BookieId,
    opened: OpenedFiles,
) -> None:
    """Adds the rows of all files in use to the index, which has a row for every entry afterwards.

    Raises ForeignDataError, CorruptionError, DiskFailedError.
    """
    if opened.damages:
        await adopt_sorted_files(files, directory, bookie, opened)
    for number in (*opened.sorted, *opened.logs):
        await _add_rows(files, index, directory, bookie, opened, number)


async def _add_rows(
    files: FileSet,
    index: TieredIndex,
    directory: IndexDirectory,
    bookie: BookieId,
    opened: OpenedFiles,
    number: int,
) -> None:
    data_file, known = opened.data_files[number], opened.sorted.get(number)
    rank = rank_of(number, known)
    kind = LOG_KIND if known is None else SORTED_KIND
    is_last = opened.last_log is not None and opened.last_log.number == number
    found = None if is_last else await directory.read(kind, number)
    if found is not None and (data_file is None or found[0].data_file == data_file):
        await index.add_file(*found, rank)
        return
    if found is not None:
        await found[0].file.close()
    if number in opened.rows:
        index.seal(number, opened.rows.pop(number))
    elif data_file is not None:
        header = await read_header(files, kind, number, bookie)
        if header is None:
            raise CorruptionError(f"the header of file {number} changed during the start")
        rows, scan = await read_rows(files, header, data_file.end)
        opened.damages.extend(scan.damages)
        if scan.damages:
            # Its index file must not be durable before the limbo is.
            index.seal(number, rows)
            return
        try:
            written = await directory.write(data_file, rows.columns(), yield_now)
        except DiskFullError:
            index.seal(number, rows)  # the maintenance task writes it when there is space
        else:
            await index.add_file(*written, rank)
    else:  # the file cannot be read, and nothing tells which entries it had
        opened.add_damage(number, 0, 0, "the file's header is damaged, and its index file is lost")


async def yield_now() -> None:
    """A pause that lets other tasks run."""
    await asyncio.sleep(0)


async def adopt_sorted_files(
    files: FileSet, directory: IndexDirectory, bookie: BookieId, opened: OpenedFiles
) -> None:
    """Adds the intact sorted files that the manifest does not name.

    A newer manifest, which is lost, may have named them in place of logs that were removed. A file
    is complete if its index file, which is written after it, names its end. A file that no manifest
    named is adopted too: it holds copies of entries that are elsewhere, which does no harm.
    """
    for number in await files.numbers(SORTED_KIND):
        if number in opened.sorted:
            continue
        header = await read_header(files, SORTED_KIND, number, bookie)
        found = await directory.read(SORTED_KIND, number)
        if found is None:
            continue
        data_file = found[0].data_file
        await found[0].file.close()
        if header is None or data_file.generation != header.generation:
            continue
        _, scan = await read_rows(files, header, data_file.end)
        ledger_bytes = await read_ledger_bytes(files, number, header.generation)
        if scan.damages or ledger_bytes is None:
            continue
        age = len(opened.sorted) + 1
        opened.sorted[number] = SortedFile(number, scan.end, sum(ledger_bytes.sizes), age)
        opened.data_files[number] = data_file


async def remove_leftovers(files: FileSet, directory: IndexDirectory, opened: OpenedFiles) -> None:
    """Removes unused files that an interrupted step left behind, if nothing is damaged.

    After damage the manifest may be an older one, so a file that it does not name may be needed.
    """
    if not opened.is_orderly:
        return
    used = set(opened.data_files)
    logs = [number for number in await files.numbers(LOG_KIND) if number in opened.leftover_logs]
    if logs:
        await files.remove(LOG_KIND, logs)
    listed = await files.numbers(SORTED_KIND)
    unused = [number for number in listed if number not in used]
    if unused:
        await files.remove(SORTED_KIND, unused)
    await directory.remove_others(used)
