"""The benchmark of a bookie with very many ledgers: the time and the memory of its start.

The ledgers and entries are synthetic, because writing 100 million entries would take hours. The
directory has what a start reads: the state of each ledger, and the heads and the index directories
of sorted files. The entries and the blocks of the index files, which a start does not read, are
missing. The rows are named ``ledgers-apart`` (each ledger is in one file) and ``ledgers-mixed``
(each file has entries of random ledgers: the most work for a start).
"""

import signal
import time
from array import array
from collections.abc import AsyncIterator, Iterator
from itertools import compress
from pathlib import Path
from random import Random
from typing import Any

from ...core.bookie.config import BookieConfig
from ...core.bookie.index.index_directory import index_path
from ...core.bookie.index.index_file import DataFile, LedgerColumns, encode_directory
from ...core.bookie.ledger_records import MASTER_KEY_BYTES
from ...core.bookie.log.log_format import SORTED_KIND
from ...core.bookie.storage import Storage
from ...core.protocol.bookie_id import BookieId
from ...server.stopped_bookie import opened_storage
from ..harness.bookie_processes import BookieProcesses, anonymous_bytes, usage_of

_ENTRIES_PER_FILE = 250_000
_ENTRY_BYTES = 1024
_BLOCK_ROWS = 512
_FIRST_LEDGER = 1 << 20
_MIB = 1 << 20


async def measure_many_ledgers(
    servers: BookieProcesses, name: str, ledger_count: int, entry_count: int
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row; ``name`` is one of ``LAYOUTS``."""
    (directory,) = servers.directories
    servers.end(directory, signal.SIGTERM)
    await fill(directory, ledger_count, LAYOUTS[name](ledger_count, entry_count))
    started = time.perf_counter()
    servers.start(directory)
    seconds = time.perf_counter() - started
    pid = servers.pid(directory)
    yield {
        "w": name,
        "peer": "rhumbline-bookie",
        "mode": "restart",
        "entries": entry_count,
        "ledgers": ledger_count,
        "restart_s": round(seconds, 2),
        "restart_cpu_s": round(usage_of(pid)[0], 2),
        "anon_mib": anonymous_bytes(pid) // _MIB,
    }
    servers.end(directory, signal.SIGKILL)


def ledgers_of(ledger_count: int) -> range:
    """Return the ids of the synthetic ledgers."""
    return range(_FIRST_LEDGER, _FIRST_LEDGER + ledger_count)


def _apart(ledger_count: int, entry_count: int) -> Iterator["array[int]"]:
    """Yield the ledgers of each file, one after the other."""
    files = max(1, entry_count // _ENTRIES_PER_FILE)
    for number in range(files):
        first, end = (ledger_count * at // files for at in (number, number + 1))
        yield array("Q", range(_FIRST_LEDGER + first, _FIRST_LEDGER + max(end, first + 1)))


def _mixed(ledger_count: int, entry_count: int) -> Iterator["array[int]"]:
    """Yield the ledgers of each file: those that 250,000 random entries belong to."""
    share = 1 - (1 - 1 / ledger_count) ** _ENTRIES_PER_FILE
    is_chosen = bytes(value < round(256 * share) for value in range(256))
    random = Random(1)
    ledgers = ledgers_of(ledger_count)
    for _ in range(max(1, entry_count // _ENTRIES_PER_FILE)):
        yield array("Q", compress(ledgers, random.randbytes(ledger_count).translate(is_chosen)))


LAYOUTS = {"ledgers-apart": _apart, "ledgers-mixed": _mixed}
"""Functions that distribute the ledgers over the files, by the name of the row."""


async def fill(directory: Path, ledger_count: int, files: Iterator["array[int]"]) -> None:
    """Adds ledgers and sorted files to the directory of a stopped bookie."""
    async with opened_storage(directory, BookieConfig()) as storage:
        for ledger_id in ledgers_of(ledger_count):
            storage.states.create(ledger_id, bytes(MASTER_KEY_BYTES)).is_proven = True
        manifest = storage.states.manifest
        for entry, ledgers in enumerate(files):
            data_file = await _write_sorted(storage, ledgers)
            manifest.sorted_files[data_file.number] = data_file.end
            content = _index_of(storage.bookie, data_file, ledgers, entry)
            (directory / index_path(data_file.number)).write_bytes(content)
        storage.log.roll_next()  # the snapshot in the next log names all of it


async def _write_sorted(storage: Storage, ledgers: "array[int]") -> DataFile:
    """Writes the head of a sorted file."""
    writer = storage.new_sorted_file()
    size = _ENTRIES_PER_FILE * _ENTRY_BYTES // max(1, len(ledgers))
    await writer.begin(dict.fromkeys(ledgers, size), 0)
    return DataFile(SORTED_KIND, writer.number, writer.generation, await writer.finish())


def _index_of(bookie: BookieId, data_file: DataFile, ledgers: "array[int]", entry: int) -> bytes:
    """Return an index file without blocks whose directory names the ledgers."""
    count = -(-_ENTRIES_PER_FILE // _BLOCK_ROWS)
    firsts = array("Q", [ledgers[len(ledgers) * at // count] for at in range(count)])
    ids, offsets, crcs = (
        array("q", [entry]) * count,
        array("Q", [0]) * count,
        array("I", [0]) * count,
    )
    columns = LedgerColumns(ledgers, array("q", [entry]) * len(ledgers))
    blocks = (firsts, ids, firsts, ids, offsets, crcs)
    return encode_directory(data_file, bookie, columns, blocks, _ENTRIES_PER_FILE, 0)
