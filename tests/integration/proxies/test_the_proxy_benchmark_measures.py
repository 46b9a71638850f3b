"""`rhumbline bench proxy` end to end, very short: raw limits first, then one row per workload."""

import json
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.process_cluster import rhumbline

KEYS = {
    "w", "peer", "size", "streams", "rec_s", "MB_s", "p50_ms", "p99_ms", "p999_ms",
    "srv_cpu_per_M", "cli_cpu_per_M", "srv_rss", "proxy_cpu_per_M", "proxy_rss", "cli_rss",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(400)
def test_producers_and_readers_are_measured(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    completed = rhumbline(
        "bench", "proxy", "--only", "P1-batching,P1-core,P3-100", "--seconds", "0.5", "--tls",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=180,
    )  # fmt: skip
    text = completed.stdout.decode()
    assert completed.returncode == 0, completed.stderr.decode()
    assert "append 4 KiB + fdatasync" in text.splitlines()[1]
    rows = {row["w"]: row for row in map(json.loads, figures.read_text().splitlines())}
    assert list(rows) == ["P1-batching", "P1-core", "P3-100"]
    for row in rows.values():
        assert row["protection"] == "TLS" and row.keys() >= KEYS
        assert row["rec_s"] > 0 and row["err"] == 0
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]
    assert rows["P3-100"]["readers"] == 100
    assert rows["P3-100"]["del"]["p50_ms"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["figures.jsonl"]


@pytest.mark.long
@pytest.mark.timeout(200)
def test_idle_connections_are_measured(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    completed = rhumbline(
        "bench", "connections", "--count", "300", "--seconds", "0.5",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=120,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr.decode()
    none, connections, calls = map(json.loads, figures.read_text().splitlines())
    assert (none["w"], connections["w"], calls["w"]) == ("none", "connections", "calls")
    assert none["connections"] == 0
    for row in (connections, calls):
        assert row["connections"] == 300
        assert 0 < row["KiB_each"] < 500
        assert 0 < row["p50_ms"] <= row["p99_ms"]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_takeovers_are_measured_and_needless_ones_counted(tmp_path: Path) -> None:
    """Bounds on the pauses are wide, because tests share the machine; the page has real figures."""
    figures = tmp_path / "figures.jsonl"
    completed = rhumbline(
        "bench", "takeover", "--kills", "1", "--stops", "1", "--starve", "3", "--spinners", "2",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=300,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr.decode()
    kill, hang, starved = map(json.loads, figures.read_text().splitlines())
    assert (kill["w"], hang["w"], starved["w"]) == ("kill", "hang", "starved")
    for row in (kill, hang):
        assert row["rounds"] == 1
        assert 0 < row["p50_ms"] == row["max_ms"] <= 10_000
    assert starved["records"] > 0
    assert starved["needless"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["figures.jsonl"]


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_flood_is_measured_with_and_without_a_quota(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    completed = rhumbline(
        "bench", "fairness", "--seconds", "1", "--repetitions", "1", "--quota", "200000",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=120,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr.decode()
    rows = {row["mode"]: row for row in map(json.loads, figures.read_text().splitlines())}
    assert list(rows) == ["alone", "flood elsewhere", "flooded", "flooded, quota"]
    assert rows["alone"]["p99_ratio"] == 1 and rows["alone"]["flood_MB_s"] == 0
    assert rows["flood elsewhere"]["flood_MB_s"] > 0 < rows["flooded"]["flood_MB_s"]
    for row in rows.values():
        assert row["rec_s"] > 0 and 0 < row["p50_ms"] <= row["p99_ms"]
