"""A configuration with small files, and helpers that fill a bookie and read it back."""

from dataclasses import replace

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.log.end_marker import END_MARKER_PATH, SLOT_BYTES
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

SMALL = BookieConfig(
    log_file_bytes=1 << 16,
    tail_cache_bytes=0,
    sealed_logs_kept=0,
    maintenance_ms=3_600_000,
    collect_ms=0,
    boot_id="boot-1",
)
UNLIMITED = replace(SMALL, collect_percent_max=100)
"""The same, and one garbage collection may delete all ledgers."""


PAYLOAD = bytes(700)


async def fill(wire: Wire, count: int) -> None:
    """Adds ``count`` entries to each of the ledgers 1 to 3, in turn."""
    for number in range(count):
        for ledger_id in (1, 2, 3):
            wire.send(v2.encode_add(KEY, entry(ledger_id, number, PAYLOAD)))
        for _ in range(3):
            response = v2.decode_response(await wire.frame())
            assert response[0] == Code.OK


async def all_there(wire: Wire, ledgers: tuple[int, ...], count: int) -> None:
    for ledger_id in ledgers:
        for number in range(count):
            assert await wire.read(ledger_id, number) == (
                Code.OK,
                entry(ledger_id, number, PAYLOAD),
            ), (ledger_id, number)


def log_paths(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.files if path.startswith("log/"))


def withdraw_last_ack(disk: MemoryDisk) -> None:
    """Restores the end marker from before the last group, as if the process died writing that."""
    marker = disk.files[END_MARKER_PATH]
    at = max((0, SLOT_BYTES), key=lambda start: marker[start + 8 : start + 16])
    marker[at : at + SLOT_BYTES] = bytes(SLOT_BYTES)


def written_end(disk: MemoryDisk, path: str) -> int:
    """Return the end of a log file without its padding."""
    return len(disk.files[path].rstrip(b"\x00"))


def tear_last_group(disk: MemoryDisk) -> None:
    """Remove the last 3 bytes of the newest log, and the padding, as if the write was cut short."""
    path = log_paths(disk)[-1]
    del disk.files[path][written_end(disk, path) - 3 :]
    withdraw_last_ack(disk)
