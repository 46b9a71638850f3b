"""The demo ends with a query on its archive after the cluster was stopped."""

import re
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.process_cluster import rhumbline

LINES = 2000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_text("".join(f"line {number} of the log\n" for number in range(LINES)))
    return path


@pytest.mark.long
@pytest.mark.timeout(300)
def test_spark_finds_the_input_in_the_archive(log: Path) -> None:
    done = rhumbline("demo", "--plain", "--seconds", "2", str(log), timeout_s=280)
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    assert done.stderr == b"", "messages of Spark are not shown"
    archived, query = output.partition("\narchive  ")[2].split("\nspark ")
    assert re.search(rf"{LINES:,} records in \d Parquet files", archived)
    assert "FROM log GROUP BY lssn" in query
    assert f"{LINES:,} records, {log.stat().st_size:,} bytes" in query
    assert output.endswith("OK: count, order and SHA-256 match the input\n")


def test_without_spark_pyarrow_finds_the_input_in_the_archive(log: Path) -> None:
    words = ("demo", "--plain", "--seconds", "1", "--no-spark", "--console", "--console-port", "0")
    done = rhumbline(*words, str(log), timeout_s=100)
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    assert "the console is at http://127.0.0.1:" in output
    assert f"{LINES:,} records in" in output.partition("\narchive  ")[2]
    assert "\nspark " not in output
    query = output.partition("\npyarrow ")[2]
    assert "FROM log GROUP BY lssn" in query
    assert f"{LINES:,} records, {log.stat().st_size:,} bytes" in query
    assert output.endswith("OK: count, order and SHA-256 match the input\n")
