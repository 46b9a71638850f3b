"""The sink writes each row once and in order, even if writes are repeated."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rhumbline.spark import lag
from rhumbline.tests.support.processes.background_cluster import REGION, STREAM, BackgroundCluster
from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    with BackgroundCluster(tmp_path) as cluster:
        yield cluster


def sink_options(cluster: BackgroundCluster, stream: str, **more: str) -> dict[str, str]:
    return {"metadata": cluster.metadata_uri, "namespace": "test", "stream": stream, **more}


def records_of(cluster: BackgroundCluster, stream: str) -> list[tuple[int, bytes]]:
    """Return txid and payload of every record."""
    return [(one.txid, one.payload) for one in cluster.records_of(stream)]


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id + 1000 as txid", "concat('row ', id) as payload")


def test_a_repeated_batch_is_written_once_and_in_order(
    spark: SparkSession, cluster: BackgroundCluster
) -> None:
    cluster.create("copy")
    frame = rows(spark, 5000).coalesce(1)
    options = sink_options(cluster, "copy", keepTxids="true", writeId="monday")
    for _ in range(2):
        frame.write.format("rhumbline").options(**options).mode("append").save()
    expected = [(1000 + n, b"row %d" % n) for n in range(5000)]
    assert records_of(cluster, "copy") == expected
    frame.write.format("rhumbline").options(**sink_options(cluster, "copy")).mode("append").save()
    assert [p for _, p in records_of(cluster, "copy")] == [p for _, p in expected] * 2


def test_several_partitions_need_proxies(spark: SparkSession, cluster: BackgroundCluster) -> None:
    cluster.create("copy")
    frame = rows(spark, 1000).repartition(2)
    with pytest.raises(Exception, match="coalesce"):
        frame.write.format("rhumbline").options(**sink_options(cluster, "copy")).mode(
            "append"
        ).save()
    with pytest.raises(Exception, match="cannot be overwritten"):
        frame.write.format("rhumbline").options(**sink_options(cluster, "copy")).mode(
            "overwrite"
        ).save()


def test_a_repeated_micro_batch_is_not_written_again(
    spark: SparkSession, cluster: BackgroundCluster, tmp_path: Path
) -> None:
    cluster.create("copy")
    written = cluster.write_segments(2)
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        source = {"metadata": cluster.metadata_uri, "namespace": "test", "subscribe": STREAM}
        query = (
            spark.readStream.format("rhumbline")
            .options(**source, startingOffsets="earliest", maxOffsetsPerTrigger=str(len(written)))
            .load()
            .coalesce(1)
            .writeStream.format("rhumbline")
            .options(**sink_options(cluster, "copy"), checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        assert query.exception() is None

    run()
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()  # as if the driver had failed before it noted the end of the batch
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    run()
    assert newest.exists()
    assert [payload for _, payload in records_of(cluster, "copy")] == written


def test_many_tasks_write_one_stream_through_proxies(
    spark: SparkSession, cluster: BackgroundCluster, tmp_path: Path
) -> None:
    cluster.create("copy")
    known = ProcessCluster(tmp_path / "proxies", [REGION])
    known.root.mkdir()
    known.metadata = cluster.metadata_uri
    with (
        ClusterProxy(known, "write-proxy", "writes", "-n", "test") as writes,
        ClusterProxy(known, "read-proxy", "reads", "-n", "test") as reads,
    ):
        frame = rows(spark, 4000).repartition(4)
        options = {
            "metadata": f"grpc://{writes.address}",
            "namespace": "test",
            "stream": "copy",
            "writeId": "tuesday",
        }
        for _ in range(2):
            frame.write.format("rhumbline").options(**options).mode("append").save()
        found = records_of(cluster, "copy")
        assert sorted(payload for _, payload in found) == sorted(b"row %d" % n for n in range(4000))
        source = {"metadata": f"grpc://{reads.address}", "namespace": "test", "subscribe": "copy"}
        back = spark.read.format("rhumbline").options(**source).load()
        assert [bytes(r.payload) for r in back.orderBy("lssn", "entry_id", "slot").collect()] == [
            payload for _, payload in found
        ]


def test_one_query_writes_many_streams(
    spark: SparkSession, cluster: BackgroundCluster, tmp_path: Path
) -> None:
    """The column stream names the stream of each row; the query's progress says how far it is."""
    written = cluster.write_segments(2)
    for stream in ("even", "odd"):
        cluster.create(stream)
    source = {"metadata": cluster.metadata_uri, "namespace": "test", "subscribe": STREAM}
    number = "CAST(substr(CAST(payload AS STRING), 1, 8) AS INT)"
    query = (
        spark.readStream.format("rhumbline")
        .options(**source, startingOffsets="earliest", maxOffsetsPerTrigger=len(written) // 2)
        .load()
        .selectExpr(
            f"if({number} % 2 = 0, 'even', 'odd') AS stream", "payload", f"{number} * 10 AS n"
        )
        .selectExpr(
            "stream", "payload", "CAST(n AS STRING) AS key", "timestamp_millis(n) AS event_time"
        )
        .coalesce(1)
        .writeStream.format("rhumbline")
        .options(metadata=cluster.metadata_uri, namespace="test")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert query.exception() is None
    behind = [
        json.loads(report["sources"][0]["latestOffset"]).get("records behind", {})
        for report in query.recentProgress
    ]
    assert behind[0].get(STREAM, 0) > 0, behind
    assert lag(query) == {}
    for stream, rest in (("even", 0), ("odd", 1)):
        found = cluster.records_of(stream)
        assert [one.payload for one in found] == [
            payload for number, payload in enumerate(written) if number % 2 == rest
        ]
        assert [one.event_time for one in found[:3]] == [10 * (2 * n + rest) for n in range(3)]
        assert found[1].key == b"%d" % (10 * (2 + rest))
