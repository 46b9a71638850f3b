"""A damaged index of a bookie never decides where a ledger ends: real processes, three regions."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, succeeded

SETTINGS = {
    "RHUMBLINE_BOOKIE__LOG_FILE_BYTES": str(1 << 14),
    "RHUMBLINE_BOOKIE__TAIL_CACHE_BYTES": "0",
    "RHUMBLINE_BOOKIE__SEALED_LOGS_KEPT": "100",
}
BEFORE, AFTER = 240, 60
WRITER = """
import sys
from rhumbline import sync
with sync.connect(sys.argv[1], region="rome") as client, client.writer("text") as writer:
    for line in sys.stdin:
        print(writer.append(line.rstrip().encode()).dlsn, flush=True)
"""
RECORD = "record {:06d} " + "x" * 400


def writer_of(cluster: ProcessCluster) -> ManagedProcess:
    """Return a writer that prints a line for each acknowledged record."""
    command = [sys.executable, "-c", WRITER, cluster.metadata]
    log = cluster.root / "writer.log"
    return ManagedProcess("writer", command, log, has_input=True, has_output=True)


def append(writer: ManagedProcess, first: int, count: int) -> list[str]:
    """Append records one by one; each is acknowledged when this returns."""
    records = [RECORD.format(number) for number in range(first, first + count)]
    for record in records:
        writer.write_line(record.encode())
        writer.read_line()
    return records


def everywhere(content: bytes) -> list[int]:
    """Return a place in each 64 bytes."""
    return list(range(0, len(content), 64))


def in_entry_ids(content: bytes) -> list[int]:
    """Return places in all ids of entries that only two bookies have; a flip adds 8192 to each."""
    places = []
    for entry_id in range(BEFORE, BEFORE + AFTER):
        for order, second in (("big", 6), ("little", 1)):
            encoded = entry_id.to_bytes(8, order)  # type: ignore[arg-type]
            found = [match.start() for match in re.finditer(re.escape(encoded), content)]
            places += [at + second for at in found]
    return places


def damage_index(bookie: BookieProcess, places_in: Callable[[bytes], list[int]]) -> None:
    """Flip one bit in each of some places in the files of the index."""
    count = 0
    for path in (bookie.directory / "index").iterdir():
        content = bytearray(path.read_bytes())
        for at in places_in(bytes(content)):
            content[at] ^= 0x20
            count += 1
        path.write_bytes(content)
    assert count


@pytest.mark.parametrize(
    "places_in", [pytest.param(everywhere, marks=pytest.mark.long), in_entry_ids]
)
def test_records_survive_a_damaged_index_and_the_loss_of_another_bookie(
    tmp_path: Path, places_in: Callable[[bytes], list[int]]
) -> None:
    """A bookie that denied entries had the segment closed before its acknowledged end.

    An index without checksums lost 13 of 301 acknowledged records to damaged entry ids.
    """
    with ProcessCluster(
        tmp_path / "cluster", ("rome", "bonn", "oslo"), environ=SETTINGS
    ) as cluster:
        rome, bonn, oslo = cluster.bookies
        cluster.run("stream", "create", "text", "--quorum", "3/3/2/2", "--flush", "immediate")
        with writer_of(cluster) as writer:
            records = append(writer, 0, BEFORE)
            rome.kill()
            records += append(writer, BEFORE, AFTER)
        assert oslo.stop() == 0
        damage_index(oslo, places_in)
        bonn.kill()
        shutil.rmtree(bonn.directory)
        for bookie in (oslo, rome):
            bookie.start()
        spare = BookieProcess(tmp_path / "cluster" / "spare", cluster.metadata, environ=SETTINGS)
        succeeded(
            "bookie", "format", str(spare.directory), "--name", "spare", "--region", "bonn",
            "-u", cluster.metadata,
        )  # fmt: skip
        spare.start()
        try:
            cluster.run("stream", "append", "text", stdin=b"after the loss\n")
            read = cluster.run("stream", "read", "text").decode().splitlines()
            assert read == [*records, "after the loss"]
        finally:
            spare.kill()
