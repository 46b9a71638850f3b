"""A damaged index of a bookie never decides where a ledger ends: real processes, three regions."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rhumbline.tests.support.processes.process_cluster import (
    BookieProcess,
    ProcessCluster,
    succeeded,
)

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


@contextmanager
def open_writer(cluster: ProcessCluster) -> Iterator["subprocess.Popen[str]"]:
    """Run a writer that prints a line for each acknowledged record; kill it at the end."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, cluster.metadata],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield writer
    finally:
        writer.kill()
        writer.communicate()


def append(writer: "subprocess.Popen[str]", first: int, count: int) -> list[str]:
    """Append records one by one; each is acknowledged when this returns."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    records = [RECORD.format(number) for number in range(first, first + count)]
    for record in records:
        writer.stdin.write(record + "\n")
        writer.stdin.flush()
        assert writer.stdout.readline().strip(), "the writer has ended"
    return records


def damage_index(bookie: BookieProcess) -> None:
    """Flip one bit in each 64 bytes of every file of the index."""
    paths = [path for path in (bookie.directory / "index").iterdir() if path.is_file()]
    assert paths
    for path in paths:
        content = bytearray(path.read_bytes())
        for at in range(0, len(content), 64):
            content[at] ^= 0x20
        path.write_bytes(content)


def test_records_survive_a_damaged_index_and_the_loss_of_another_bookie(tmp_path: Path) -> None:
    """A bookie that denied entries had the segment closed before its acknowledged end."""
    with ProcessCluster(
        tmp_path / "cluster", ("rome", "bonn", "oslo"), environ=SETTINGS
    ) as cluster:
        rome, bonn, oslo = cluster.bookies
        cluster.run("stream", "create", "text", "--quorum", "3/3/2/2", "--flush", "immediate")
        with open_writer(cluster) as writer:
            records = append(writer, 0, BEFORE)
            rome.kill()
            records += append(writer, BEFORE, AFTER)
        oslo.stop()
        damage_index(oslo)
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
