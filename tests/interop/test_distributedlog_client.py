"""Apache DistributedLog's own client with Rhumbline's bookies."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.tests.support.processes.bookies_on_zookeeper import BookiesOnZooKeeper
from rhumbline.tests.support.servers.apache import StreamOfNumbers, distributedlog_classpath
from rhumbline.tests.support.servers.metadata_servers import started

pytestmark = [
    pytest.mark.needs_server("apache-bookkeeper"),
    pytest.mark.timeout(600),
    pytest.mark.long,
]

REGIONS = ("oslo", "bonn", "rome", "oslo")
RECORDS = 20_000
SEGMENT_BYTES = 100_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookiesOnZooKeeper]:
    started(distributedlog_classpath)
    with BookiesOnZooKeeper(tmp_path_factory.mktemp("bookies"), REGIONS) as made:
        StreamOfNumbers(made.zookeeper.address).run("bind")
        yield made


def test_a_stream_survives_a_killed_bookie_and_a_killed_writer(
    cluster: BookiesOnZooKeeper, tmp_path: Path
) -> None:
    """The second writer takes the stream over: its client fences and recovers the last ledger."""
    numbers = StreamOfNumbers(cluster.zookeeper.address)
    first = numbers.writer("orders", 0, 10 * RECORDS, SEGMENT_BYTES, tmp_path / "first.log")
    first.start()
    acknowledged = wait_for(first, RECORDS // 3)
    cluster.bookies[0].kill()
    wait_for(first, acknowledged + RECORDS // 3)
    first.kill()
    acknowledged = count_of(first)
    begun = time.monotonic()
    again = 10 * RECORDS
    second = numbers.run("write", "orders", str(again), "1000", str(SEGMENT_BYTES))
    taken_over_s = time.monotonic() - begun
    assert f"acknowledged {again + 999}" in second
    printed = numbers.run("read", "orders", str(acknowledged + 1000))
    found = [int(number) for number in re.findall(r"^record (\d+)$", printed, re.MULTILINE)]
    assert found == sorted(set(found))
    # records in flight when the writer died may be there too
    assert found[:acknowledged] == list(range(acknowledged))
    segments = int(re.findall(r"^segments (\d+)$", printed, re.MULTILINE)[0])
    assert segments > 2
    print(
        f"{acknowledged} + 1000 records acknowledged, {len(found)} read, 0 lost, {segments} "
        f"segments, second writer done after {taken_over_s:.1f} s"
    )
    cluster.bookies[0].start()


def test_a_deleted_stream_is_gone(cluster: BookiesOnZooKeeper) -> None:
    numbers = StreamOfNumbers(cluster.zookeeper.address)
    assert "acknowledged 99" in numbers.run("write", "shortlived", "0", "100", "1000000")
    numbers.run("delete", "shortlived")
    with pytest.raises(subprocess.CalledProcessError):
        numbers.run("read", "shortlived", "1")


def count_of(writer: ManagedProcess) -> int:
    """Return the number of records that are acknowledged."""
    found = re.findall(r"^acknowledged (\d+)$", writer.output, re.MULTILINE)
    return int(found[-1]) + 1 if found else 0


def wait_for(writer: ManagedProcess, count: int) -> int:
    """Wait until ``count`` records are acknowledged, and return how many are."""
    deadline = time.monotonic() + 120
    while (found := count_of(writer)) < count:
        assert writer.is_running and time.monotonic() < deadline, writer.output[-2000:]
        time.sleep(0.1)
    return found
