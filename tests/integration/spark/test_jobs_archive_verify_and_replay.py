"""The Spark jobs: executors archive and verify segments, and replay appends records once."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.stores.open_store import open_cold_store
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.spark import submit
from rhumbline.spark.jobs.archive import ArchiveJob, archive
from rhumbline.spark.jobs.incremental import AppendTarget, ArchivedSource
from rhumbline.spark.jobs.replay import ReplayJob, replay
from rhumbline.spark.jobs.verify import verify
from rhumbline.spark.session import QUICK_START
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    with BackgroundCluster(tmp_path) as cluster:
        yield cluster


def submit_job(*arguments: str) -> str:
    """Run a job with spark-submit and return its output."""
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]",
        "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1",
        "--conf", "spark.driver.host=127.0.0.1",
        *(word for setting in QUICK_START.items() for word in ("--conf", "=".join(setting))),
        str(submit.__file__), *arguments,
    ]  # fmt: skip
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def expire_first(cluster: BackgroundCluster) -> None:
    """Delete the archive of the first segment, as retention does."""
    identity = cluster.run(cluster.client.namespace().describe(STREAM)).identity

    async def expire() -> list[int]:
        cold = open_cold_store(cluster.cold_uri)
        try:
            archives = ColdArchives(cold, "test")
            return await archives.expire(STREAM, identity, below=2, completed_by_ms=2**60)
        finally:
            await cold.close()

    assert cluster.run(expire()) == [1]


@pytest.mark.long
@pytest.mark.timeout(500)
def test_completed_segments_are_archived_and_replayed_once(
    spark: SparkSession, cluster: BackgroundCluster, tmp_path: Path
) -> None:
    written = cluster.write_segments(4)
    segments = cluster.run(cluster.client.namespace().describe(STREAM)).segments
    job = ArchiveJob(cluster.metadata_uri, "test", None, cluster.cold_uri)
    done, faults = archive(spark, job, [STREAM], tasks=2)
    assert faults == {}
    assert [manifest.lssn for manifest in done] == [segment.lssn for segment in segments]
    assert all(after.follows(before) for before, after in pairwise(done))
    assert archive(spark, job) == ([], {})
    elsewhere = replace(job, cold=(tmp_path / "other").as_uri())
    with pytest.raises(InvalidArgumentError, match=r"lacks .* that were archived before"):
        archive(spark, elsewhere)
    assert set(map(tuple, verify(spark, cluster.cold_uri).values())) == {()}

    cluster.create("again")
    replay_job = ReplayJob(
        ArchivedSource(cluster.cold_uri, "test", STREAM),
        AppendTarget(cluster.metadata_uri, "test", None, str(tmp_path / "checkpoint")),
        "again",
    )
    assert [replay(spark, replay_job) for _ in range(2)] == [len(written), 0]
    first = cluster.records_of(STREAM)
    assert [(one.txid, one.payload) for one in cluster.records_of("again")] == [
        (one.txid, one.payload) for one in first
    ]

    more = cluster.write_segments(segments[-1].lssn + 2)
    assert len(more) > len(written)
    output = submit_job(
        "archive", STREAM, "--cold", cluster.cold_uri, "--metadata", cluster.metadata_uri,
        "--namespace", "test",
    )  # fmt: skip
    assert "archived" in output
    expire_first(cluster)  # the records that are left keep their positions
    assert replay(spark, replay_job) == len(more) - len(written)
    assert [one.payload for one in cluster.records_of("again")] == more

    part = min((tmp_path / "cold/test" / STREAM).glob("*/segment-*.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    manifest = max((tmp_path / "cold/test" / STREAM).glob("_chain/*/manifest-*.json"))
    manifest.write_bytes(b"{")
    damaged = {name for name, texts in verify(spark, cluster.cold_uri, f"test/{STREAM}").items()
              if texts}  # fmt: skip
    assert damaged == {
        f"test/{STREAM}/{part.parent.name}/2",
        str(manifest.relative_to(tmp_path / "cold")),
    }
