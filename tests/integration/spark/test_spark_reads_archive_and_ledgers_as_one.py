"""Archive and ledgers are read as one table while segments roll and are archived."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    with BackgroundCluster(tmp_path) as cluster:
        yield cluster


def frame_options(cluster: BackgroundCluster, **more: str) -> dict[str, str]:
    return {
        "metadata": cluster.metadata_uri,
        "archive": cluster.cold_uri,
        "namespace": "test",
        "subscribe": STREAM,
        **more,
    }


def rows_of(frame: DataFrame) -> list[tuple[Dlsn, bytes]]:
    """Return DLSN and payload of every row in order of position."""
    rows = frame.select("dlsn", "payload").collect()
    return sorted((Dlsn.parse(row.dlsn), bytes(row.payload)) for row in rows)


def retired_segments(cluster: BackgroundCluster) -> int:
    """Return the number of segments that only the archive holds."""
    return sum(done.retired for done in cluster.passes)


@pytest.mark.timeout(400)
def test_batches_equal_the_log_while_it_is_written_and_archived(
    spark: SparkSession, cluster: BackgroundCluster
) -> None:
    """Read adjacent ranges and the whole stream until several segments were archived."""
    cluster.start_writing(pause_s=0.05)
    cluster.start_archiving()
    boundary = Dlsn(1, 0, 0)
    seen: list[tuple[Dlsn, bytes]] = []
    rounds = 0
    while rounds < 4 or retired_segments(cluster) < 3:
        rounds += 1
        time.sleep(0.5)
        start, boundary = boundary, cluster.end()
        options = frame_options(
            cluster,
            startingOffsets=json.dumps({STREAM: str(start)}),
            endingOffsets=json.dumps({STREAM: str(boundary)}),
        )
        seen += rows_of(spark.read.format("rhumbline").options(**options).load())
        whole = frame_options(cluster, endingOffsets=json.dumps({STREAM: str(boundary)}))
        assert rows_of(spark.read.format("rhumbline").options(**whole).load()) == seen
    written = cluster.stop_writing()
    assert [payload for _, payload in seen] == written[: len(seen)]
    frame = spark.read.format("rhumbline").options(**frame_options(cluster)).load()
    rows = rows_of(frame)
    log = cluster.records_of()
    assert rows == [(one.dlsn, one.payload) for one in log], "rows and records differ"
    assert [one.payload for one in log] == written
    assert not [done.faults for done in cluster.passes if done.faults]
    segments = cluster.run(cluster.client.namespace().describe(STREAM)).segments
    assert frame.where("lssn >= 2 and lssn < 3").count() == segments[1].record_count


def test_truncated_records_are_an_error_unless_allowed(
    spark: SparkSession, cluster: BackgroundCluster
) -> None:
    cluster.start_writing(pause_s=0)
    while cluster.end().lssn < 3:
        time.sleep(0.05)
    written = cluster.stop_writing()
    cluster.truncate(Dlsn(2, 0, 0))
    start = json.dumps({STREAM: "1:0:0"})
    strict = frame_options(cluster, startingOffsets=start)
    with pytest.raises(Exception, match="failOnDataLoss"):
        spark.read.format("rhumbline").options(**strict).load().count()
    allowed = frame_options(cluster, startingOffsets=start, failOnDataLoss="false")
    rows = spark.read.format("rhumbline").options(**allowed).load()
    first = cluster.run(cluster.client.namespace().describe(STREAM)).segments[0]
    assert rows.count() == len(written) - first.record_count
