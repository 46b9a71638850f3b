"""Executors with only pyspark and pyarrow read archives, in a cluster of real processes.

The product is sent to them with ``--py-files``, as the how-to describes.
"""

import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.spark.session import QUICK_START
from rhumbline.tests.support.servers.metadata_servers import Server
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT
from rhumbline.tests.unit.spark.spark_world import Row, archive_on_disk

WORKERS = 2
NEEDED = ("pyspark", "py4j", "pyarrow")

pytestmark = pytest.mark.timeout(300)


class SparkProcess(Server):
    """A Spark master or a worker."""

    name = "spark"

    def __init__(self, role: str, *arguments: str) -> None:
        super().__init__()
        self._role = role
        self._arguments = arguments

    def command_line(self) -> list[str]:
        """See Server."""
        main = f"org.apache.spark.deploy.{self._role.lower()}.{self._role}"
        (java,) = QUICK_START.values()
        (core,) = (pyspark_folder() / "jars").glob("spark-core_*.jar")
        scala = core.name.split("_")[1].split("-")[0]
        return [
            "env", f"SPARK_HOME={pyspark_folder()}", f"SPARK_SCALA_VERSION={scala}",
            "java", "-Xmx256m", *java.split(), "-cp", f"{pyspark_folder()}/jars/*", main,
            "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0", *self._arguments,
        ]  # fmt: skip

    def is_ready(self) -> bool:
        """See Server."""
        log = (self.directory / "log").read_text(errors="replace")
        ready = {"Master": "I have been elected leader", "Worker": "Successfully registered"}
        return ready[self._role] in log


def pyspark_folder() -> Path:
    return Path(sysconfig.get_path("purelib")) / "pyspark"


@pytest.fixture
def master() -> Iterator[str]:
    """Yield the address of a cluster with two workers of one core."""
    head = SparkProcess("Master")
    head.start()
    address = f"spark://127.0.0.1:{head.port}"
    workers = [SparkProcess("Worker", "--cores", "1", "--memory", "512m", address)
               for _ in range(WORKERS)]  # fmt: skip
    try:
        for worker in workers:
            worker.launch()
        for worker in workers:
            worker.wait_ready()
        yield address
    finally:
        for process in (*workers, head):
            process.remove()


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """Return a Python interpreter with only the libraries that reading an archive needs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (site,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for name in NEEDED:
        (site / name).symlink_to(pyspark_folder().parent / name)
    return tmp_path / "bare/bin/python"


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Return a zip archive with the modules of the wheel."""
    path = tmp_path / "rhumbline.zip"
    with zipfile.ZipFile(path, "w") as file:
        for source in source_tree.files():
            if source.suffix == ".py" and source.parts[0] not in ("tests", "docs"):
                file.write(ROOT / source, Path("rhumbline") / source)
    return path


DRIVER = """
import sys
from pyspark.sql import SparkSession
import rhumbline.spark
spark = SparkSession.builder.getOrCreate()
rhumbline.spark.register(spark)
frame = (
    spark.read.format("rhumbline")
    .options(archive=sys.argv[1], namespace="test", subscribe="s", minPartitions=8).load()
)
def where(rows):
    import os, sys
    return [(os.environ["SPARK_EXECUTOR_DIRS"], sys.executable)]
ids = frame.rdd.mapPartitions(where).collect()
print("rows", frame.count(), "txids", frame.selectExpr("sum(txid)").first()[0])
folders, pythons = (set(found) for found in zip(*ids))
print("executors", len(folders), "python", pythons)
spark.stop()
"""


@pytest.mark.long
def test_executors_with_only_pyspark_and_pyarrow_read_an_archive(
    master: str, bare_python: Path, shipped: Path, tmp_path: Path
) -> None:
    rows: list[Row] = archive_on_disk(tmp_path / "cold")
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    ((key, java),) = QUICK_START.items()
    done = subprocess.run(
        [
            Path(sys.executable).with_name("spark-submit"), "--master", master,
            "--py-files", shipped, "--conf", f"spark.pyspark.python={bare_python}",
            "--conf", f"{key}={java}", "--conf", f"spark.executor.extraJavaOptions={java}",
            "--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false",
            "--conf", "spark.driver.host=127.0.0.1",
            "--conf", "spark.driver.bindAddress=127.0.0.1",
            script, (tmp_path / "cold").as_uri(),
        ],
        capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path,
        env={"PATH": f"{bare_python.parent}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"rows {len(rows)} txids {sum(row[1] for row in rows)}" in done.stdout
    assert re.search(rf"executors {WORKERS} python .*{bare_python}", done.stdout), done.stdout
