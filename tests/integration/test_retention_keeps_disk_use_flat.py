"""Disk use stays flat under a TTL, with real processes and without any archiver.

The repair process applies the policy. ``make retention MINUTES=10`` runs it for longer.
"""

import asyncio
import os
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from rhumbline import LogClient, connect
from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.processes.process_cluster import ProcessCluster

SECONDS = float(os.environ.get("RETENTION_MINUTES", "0.7")) * 60
SAMPLES = 20
RECORD_BYTES = 1000
RECORDS_PER_BURST = 50
BURSTS_PER_S = 10
POLICY = ("--retention", "4s", "--purge-grace", "1s", "--roll-time", "1s")
SETTINGS = {
    "RHUMBLINE_BOOKIE__LOG_FILE_BYTES": str(1 << 20),
    "RHUMBLINE_BOOKIE__SEALED_LOGS_KEPT": "1",
    "RHUMBLINE_BOOKIE__MAINTENANCE_MS": "500ms",
    "RHUMBLINE_BOOKIE__COLLECT_MS": "1s",
}


class Sample(NamedTuple):
    """Bytes on all disks at a moment."""

    at_s: float
    bookies: int
    metadata: int


def disk_bytes(folder: Path) -> int:
    """Return the size of all files below ``folder``; one may vanish meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


async def write(client: LogClient) -> int:
    """Append numbered records that cannot be compressed at a fixed rate; return their number."""
    random, number = Random(1), 0
    async with client.writer("events") as writer:
        begun = time.monotonic()
        while (elapsed_s := time.monotonic() - begun) < SECONDS:
            batch = [
                b"%012d" % (number + n) + random.randbytes(RECORD_BYTES - 12)
                for n in range(RECORDS_PER_BURST)
            ]
            writer.append_many(batch)
            number += len(batch)
            await writer.room()
            due_s = number / RECORDS_PER_BURST / BURSTS_PER_S
            await asyncio.sleep(max(0.0, due_s - elapsed_s))
        await writer.flush()
    return number


async def sample(cluster: ProcessCluster, found: list[Sample]) -> None:
    """Measure the bookies' disks and the metadata store regularly, until cancelled."""
    begun = time.monotonic()
    while True:
        await asyncio.sleep(SECONDS / SAMPLES)
        stored = await asyncio.to_thread(
            lambda: sum(disk_bytes(bookie.directory) for bookie in cluster.bookies)
        )
        metadata = sum(path.stat().st_size for path in cluster.root.glob("metadata.db*"))
        found.append(Sample(time.monotonic() - begun, stored, metadata))


async def assert_rest_is_readable(client: LogClient, count: int) -> int:
    """Read from the first active record to the last one; return the number of records."""
    numbers: list[int] = []
    end = await client.namespace().end("events")
    async with await client.namespace().open_reader("events", EARLIEST) as reader:
        while (batch := await reader.next_batch(until=end)) is not None:
            numbers += [int(payload[:12]) for payload in batch.payloads()]
    assert numbers == list(range(count - len(numbers), count))
    return len(numbers)


async def write_and_sample(
    cluster: ProcessCluster,
) -> tuple[int, int, list[Sample]]:
    samples: list[Sample] = []
    async with connect(cluster.metadata, region="a") as client:
        sampling = asyncio.ensure_future(sample(cluster, samples))
        count = await write(client)
        sampling.cancel()
        await asyncio.wait([sampling])
        left = await assert_rest_is_readable(client, count)
    return count, left, samples


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 240)
def test_disk_use_stays_flat_without_an_archiver(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a", "a", "a"), environ=SETTINGS) as cluster:
        cluster.run("stream", "create", "events", "--quorum", "3/3/2", *POLICY)
        command = rhumbline_command(
            "repair", "run", "--retention-interval", "500ms", *cluster.options()
        )
        with ManagedProcess("repair", command, tmp_path / "repair.log", ready="repairing"):
            count, left, samples = asyncio.run(write_and_sample(cluster))
            findings = cluster.run("doctor", "-o", "json").decode()
    written = 3 * count * RECORD_BYTES
    print(f"\n{SECONDS:.0f} s, {written / 1e6:.1f} MB written to bookies, {left} records left")
    for at_s, stored, metadata in samples:
        print(f"{at_s:7.1f} s  bookies {stored / 1e6:8.2f} MB  metadata {metadata / 1e3:8.1f} kB")
    middle = len(samples) // 2
    peaks = [max(stored for _, stored, _ in half) for half in (samples[:middle], samples[middle:])]
    print(f"peak of the first half {peaks[0] / 1e6:.2f} MB, of the second {peaks[1] / 1e6:.2f} MB")
    assert left < count / 2
    assert peaks[1] < written / 2, "what was written long ago is gone"
    assert "no repair process" not in findings
