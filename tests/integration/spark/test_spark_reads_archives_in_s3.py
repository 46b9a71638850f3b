"""Executors take the credentials of an archive in S3 from Spark's Hadoop settings."""

import asyncio
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rhumbline.spark
from rhumbline.spark.hadoop_settings import s3_environment
from rhumbline.tests.support.servers import cold_servers
from rhumbline.tests.unit.spark.spark_world import archive_on_disk

PREFIX = "for-spark"


async def upload(objects: dict[str, bytes]) -> None:
    """Store objects in the S3 server."""
    store = cold_servers.s3_store(prefix=PREFIX)
    try:
        for key, data in objects.items():
            assert await store.put_if_absent(key, data)
    finally:
        await store.close()


@pytest.mark.needs_server("s3")
def test_s3a_archives_are_read_with_hadoop_settings(spark: SparkSession, tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    asyncio.run(upload({str(one.relative_to(tmp_path)): one.read_bytes() for one in files}))
    server = cold_servers.s3()
    assert not any(name.startswith("RHUMBLINE_S3_") for name in os.environ)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    settings = {
        "fs.s3a.access.key": server.access_key,
        "fs.s3a.secret.key": server.secret_key,
        "fs.s3a.endpoint": server.address,
        "fs.s3a.connection.ssl.enabled": "false",
    }
    for key, value in settings.items():
        hadoop.set(key, value)
    try:
        rhumbline.spark.register(spark)
        given = {"archive": f"s3a://{server.bucket}/{PREFIX}", "namespace": "test"}
        frame = spark.read.format("rhumbline").options(**given, subscribe="s").load()
        found = sorted((row.txid, bytes(row.payload)) for row in frame.collect())
        assert found == sorted((txid, payload) for _, txid, payload in rows)
        assert s3_environment(spark)["RHUMBLINE_S3_ENDPOINT"] == f"http://{server.address}"
    finally:
        for key in settings:
            hadoop.unset(key)
        for name in list(spark.sparkContext.environment):
            if name.startswith("RHUMBLINE_S3_"):
                del spark.sparkContext.environment[name]
