"""``read_archive`` verifies files in HDFS and S3, which Spark then reads with Hadoop's clients."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rhumbline.chaos.managed_process import ManagedProcess, bare_environment, python_command
from rhumbline.core.protocol.errors import ConfigurationError, CorruptionError
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.spark import read_archive
from rhumbline.spark.hadoop_stores import HadoopStore
from rhumbline.tests.support.servers import cold_servers, installs
from rhumbline.tests.unit.spark.spark_world import Row, archive_on_disk

S3A = Path(__file__).parent / "s3a"


def objects_below(root: Path) -> dict[str, bytes]:
    """Return the files of an archive by key, in order."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def damaged(objects: dict[str, bytes]) -> tuple[dict[str, bytes], str]:
    """Return objects of which the last one, a part, has another byte; and its key."""
    key, data = list(objects.items())[-1]
    at = len(data) // 2
    return objects | {key: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]}, key


async def upload(store: ColdStore, objects: dict[str, bytes]) -> None:
    """Store objects."""
    try:
        for key, data in objects.items():
            assert await store.put_if_absent(key, data)
    finally:
        await store.close()


def read(spark: SparkSession, archive: str) -> list[Row]:
    """Return the rows of stream "s" in order."""
    frame = read_archive(spark, archive=archive, namespace="test", subscribe="s")
    rows = frame.orderBy("lssn", "entry_id", "slot").collect()
    return [(row.dlsn, row.txid, bytes(row.payload)) for row in rows]


@pytest.mark.long
@pytest.mark.needs_server("hdfs")
@pytest.mark.timeout(400)
def test_files_in_hdfs_are_verified_and_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    objects = objects_below(tmp_path)
    changed, key = damaged(objects)
    server = cold_servers.hdfs()
    asyncio.run(upload(cold_servers.hdfs_store(root="/verified"), objects))
    asyncio.run(upload(cold_servers.hdfs_store(root="/damaged"), changed))
    options = f"user={server.user}&http-port={server.address.rpartition(':')[2]}"
    assert read(spark, f"hdfs://{server.rpc_address}/verified?{options}") == rows
    with pytest.raises(CorruptionError, match=key):
        read(spark, f"hdfs://{server.rpc_address}/damaged?{options}")
    # The Hadoop client of Spark 4.3 lacks a class that WebHDFS needs.
    with pytest.raises(ConfigurationError, match=r"Spark cannot open this store.*jersey"):
        read(spark, f"webhdfs://{server.address}/verified?user={server.user}")


@pytest.mark.long
@pytest.mark.needs_server("s3")
@pytest.mark.timeout(400)
def test_files_in_s3_are_verified_and_read(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path / "archive")
    objects = objects_below(tmp_path / "archive")
    changed, key = damaged(objects)
    server = cold_servers.s3()
    asyncio.run(upload(cold_servers.s3_store(prefix="verified"), objects))
    asyncio.run(upload(cold_servers.s3_store(prefix="damaged"), changed))
    settings = {
        "spark.hadoop.fs.s3a.access.key": server.access_key,
        "spark.hadoop.fs.s3a.secret.key": server.secret_key,
        "spark.hadoop.fs.s3a.endpoint": f"http://{server.address}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    uris = [f"s3a://{server.bucket}/{name}" for name in ("verified", "damaged", "missing")]
    both, refused, absent = drive(tmp_path, settings, uris)
    expected = [[dlsn, txid, payload.hex()] for dlsn, txid, payload in rows]
    assert both == [expected, expected]
    assert refused[0] == "CorruptionError"
    assert key in refused[1]
    assert absent[0] == "NoSuchStreamError"


def drive(folder: Path, settings: dict[str, str], archives: list[str]) -> list[Any]:
    """Return what a driver of its own prints, which has Hadoop's settings and nothing else."""
    arguments = (str(installs.maven_jars(S3A)), json.dumps(settings), *archives)
    driver = ManagedProcess(
        "driver",
        python_command("tests.integration.spark.s3a_driver", *arguments),
        folder / "driver.log",
        environ={**bare_environment(), "PYSPARK_PYTHON": sys.executable},
    )
    driver.launch()
    code = driver.wait(200)
    printed = driver.log.read_text(errors="replace")
    assert code == 0, printed[-5000:]
    lines = [line for line in printed.splitlines() if line.startswith("RESULT ")]
    return [json.loads(line.removeprefix("RESULT ")) for line in lines]


def test_a_store_that_spark_cannot_open_is_refused_at_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(name.startswith("RHUMBLINE_S3_") for name in os.environ)
    with pytest.raises(ConfigurationError, match=r"lacks the class .*S3AFileSystem; add it with"):
        read_archive(spark, archive="s3://bucket/cold", subscribe="s")
    with pytest.raises(ConfigurationError, match=r"set spark\.hadoop\.fs\.s3a\.endpoint to"):
        read_archive(spark, archive="s3a://bucket/cold?endpoint=http://store:9000", subscribe="s")
    with pytest.raises(ConfigurationError, match="Parquet reader cannot open this store"):
        HadoopStore(spark, "sqlite-cold:///cold")


def test_settings_of_a_bucket_take_precedence(spark: SparkSession) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    settings = {
        "fs.s3a.access.key": "of-all",
        "fs.s3a.session.token": "for-an-hour",
        "fs.s3a.bucket.mine.access.key": "of-mine",
        "fs.s3a.bucket.mine.endpoint": "store.example.com",
    }
    for key, value in settings.items():
        hadoop.set(key, value)
    try:
        mine = HadoopStore(spark, "s3://mine/cold/").settings
        other = HadoopStore(spark, "s3a://other/cold").settings
    finally:
        for key in settings:
            hadoop.unset(key)
    assert mine["RHUMBLINE_S3_ACCESS_KEY"] == "of-mine"
    assert mine["RHUMBLINE_S3_ENDPOINT"] == "https://store.example.com"
    assert other["RHUMBLINE_S3_ACCESS_KEY"] == "of-all"
    assert other["RHUMBLINE_S3_SESSION_TOKEN"] == mine["RHUMBLINE_S3_SESSION_TOKEN"]
    assert "RHUMBLINE_S3_ENDPOINT" not in other
    assert HadoopStore(spark, "s3://mine/cold/?region=x").path == "s3a://mine/cold"
