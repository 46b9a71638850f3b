"""Benchmarks end to end, very short: raw limits first, rows in the peers' keys, no errors."""

import json
from pathlib import Path

import pytest

from rhumbline.tests.support.processes import rhumbline

KEYS = {
    "w", "peer", "size", "streams", "rec_s", "MB_s", "p50_ms", "p99_ms", "p999_ms",
    "srv_cpu_per_M", "cli_cpu_per_M", "srv_rss",
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "rows"), [("write --only W1b,W2-1", 3), ("tail --only W3-1000", 2)]
)
def test_a_benchmark_writes_rows_that_stand_beside_the_peers(
    tmp_path: Path, command: str, rows: int
) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", *command.split(), "--seconds", "0.5", "--json", str(figures),
        "--directory", str(tmp_path), timeout_s=100,
    )  # fmt: skip
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert "append 4 KiB + fdatasync" in text.splitlines()[1]
    assert "loopback round trip" in text
    found = [json.loads(line) for line in figures.read_text().splitlines()]
    assert len(found) == rows
    for row in found:
        assert row.keys() >= KEYS
        assert row["rec_s"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]
        if command.startswith("tail"):
            assert row["del"]["p50_ms"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["figures.jsonl"]


def test_a_workload_that_is_none_is_named() -> None:
    done = rhumbline("bench", "write", "--only", "W9")
    assert done.returncode == 2
    assert "no workload W9; there are: W1-128" in done.stderr.decode()
