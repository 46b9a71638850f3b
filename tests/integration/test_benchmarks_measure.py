"""Short end-to-end runs of the benchmarks: raw limits come first, rows have the expected keys."""

import json
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.process_cluster import rhumbline

KEYS = {
    "w", "peer", "size", "streams", "rec_s", "MB_s", "p50_ms", "p99_ms", "p999_ms",
    "srv_cpu_per_M", "cli_cpu_per_M", "srv_rss",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "rows"),
    [("write --only W1b,W2-1", 3), ("write --only W2-1 --tls both", 2), ("tail --only W3-1000", 4)],
)
def test_benchmark_writes_rows_with_the_keys_of_peer_systems(
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
    assert ("RECORDS/S TLS" in text) == ("--tls both" in command)
    for row in found:
        assert row.keys() >= KEYS
        assert row["rec_s"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]
        assert (row.get("protection") == "TLS") == row["peer"].endswith("-tls")
        if command.startswith("tail"):
            assert row["del"].keys() >= {"p50_ms", "p99_ms"}
    assert [path.name for path in tmp_path.iterdir()] == ["figures.jsonl"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "sources"),
    [
        ("archived", ["parquet-scan", "records", "arrow", "stream-read"]),
        ("read --cold", ["files", "rhumbline-records", "rhumbline-arrow"]),
    ],
)
def test_reading_from_disk_is_compared_with_the_speed_of_the_files(
    tmp_path: Path, command: str, sources: list[str]
) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", *command.split(), "--records", "2000", "--json", str(figures),
        "--directory", str(tmp_path), timeout_s=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert "3 copies of 1 KiB, 2 awaited" in done.stdout.decode()
    rows = [json.loads(line) for line in figures.read_text().splitlines()]
    assert {f"{source}-cold" for source in sources} <= {row["peer"] for row in rows}
    assert all(row["rec_s"] > 0 for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("round_trip", [0, 20])
def test_a_sweep_ends_at_a_rate_that_is_not_sustained(tmp_path: Path, round_trip: int) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", "sweep", "--flush", "10", "--rates", "200,400,9000000", "--seconds", "0.5",
        "--round-trip", str(round_trip), "--json", str(figures), "--directory", str(tmp_path),
        timeout_s=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    rows = [json.loads(line) for line in figures.read_text().splitlines()]
    rates = [row["rate"] for row in rows]
    assert rates == [200, 400, 9_000_000][: len(rates)]
    assert all(row["is_sustained"] for row in rows[:-1])
    assert not any(row["is_sustained"] for row in rows if row["rate"] == 9_000_000)
    for row in rows[:2]:
        assert row["p50_ms"] >= round_trip
        assert ("del_c" in row) == (round_trip > 0)


STEPS = ["create", "open", "append-1", "append-2", "rest", "take-over", "close"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "steps"),
    [
        ("streams --count 20", STEPS),
        ("streams --count 20 --metadata-delay 20", STEPS),
        ("positions --segments 5 --lookups 3", ["find-dlsn", "find-txid", "find-sequence-id"]),
    ],
)
def test_stream_and_position_benchmarks_count_metadata_reads(
    tmp_path: Path, command: str, steps: list[str]
) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", *command.split(), "--seconds", "0.2", "--json", str(figures),
        "--directory", str(tmp_path), timeout_s=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    rows = [json.loads(line) for line in figures.read_text().splitlines()]
    assert [row["w"] for row in rows] == steps
    for row in rows:
        assert row.get("streams", 20) == 20
        assert 1 <= row.get("metadata_reads", 1) <= 10
        assert 1 <= row.get("entry_reads", 1) <= 8
        if "--metadata-delay" in command and row["w"] in ("open", "take-over"):
            assert row["p50_ms"] >= 20 * (6 if row["w"] == "open" else 7), "calls in sequence"


@pytest.mark.long
def test_segments_are_read_ahead_of_a_distant_metadata_store(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", "segments", "--count", "30", "--metadata-delay", "10", "--json", str(figures),
        "--directory", str(tmp_path), timeout_s=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    rows = {row["w"]: row for row in map(json.loads, figures.read_text().splitlines())}
    assert {"list", "read-first", "open-reader", "open-writer", "truncate"} < rows.keys()
    calls = rows["read-many"]["metadata_calls"]
    assert 60 <= calls <= 90, "two for most of the 30 segments, and never more than three"
    print(f"30 segments in {rows['read-many']['p50_ms']} ms, {calls} calls of 10 ms")


def test_unknown_workload_is_refused_with_the_known_names() -> None:
    done = rhumbline("bench", "write", "--only", "W9")
    assert done.returncode == 2
    assert "unknown workload W9; the workloads are: W1-128" in done.stderr.decode()


@pytest.mark.long
def test_bookie_benchmark_reports_bounded_write_amplification(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", "bookie", "--only", "adds,reads,restarts,ledgers", "--seconds", "0.3",
        "--entries", "5000", "--ledgers", "2000",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    rows = {row["w"]: row for row in map(json.loads, figures.read_text().splitlines())}
    assert list(rows) == [
        "adds-128", "adds-1K", "adds-16K", "adds-128K",
        "restart-empty", "reads-random", "reads-sequential", "restart-kill9", "restart-clean",
        "ledgers-apart", "ledgers-mixed",
    ]  # fmt: skip
    for name, row in rows.items():
        assert row["anon_mib"] > 0
        if name.startswith("adds"):
            assert 1.0 <= row["log_per_byte"] < 1.15
        if name.startswith("restart"):
            assert row["restart_s"] > 0
            assert row["entries"] == (0 if name == "restart-empty" else 5000)
        elif name.startswith("ledgers"):
            assert row["restart_s"] > 0
            assert (row["ledgers"], row["entries"]) == (2000, 5000)
        else:
            assert row["rec_s"] > 0


@pytest.mark.long
def test_returning_consumers_cross_the_wide_area_about_once(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", "returning", "--consumers", "1,8", "--megabytes", "4", "--round-trip", "10",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    one, many = [json.loads(line) for line in figures.read_text().splitlines()]
    assert (one["consumers"], many["consumers"]) == (1, 8)
    assert many["delivered_MB"] > 7 * one["delivered_MB"]
    for row in (one, many):
        assert 1.0 <= row["wan_per_stream_byte"] < 1.6
        # The proxy's own counters agree with the links.
        assert row["other_region_bytes"] == pytest.approx(row["wan_MB"] * 1e6, rel=0.2)
        assert row["fetched_bytes"] == pytest.approx(row["wan_MB"] * 1e6, rel=0.2)
        assert row["delivered_bytes"] >= row["delivered_MB"] * 1e6 * 0.99


@pytest.mark.long
def test_reader_in_another_region_overlaps_its_round_trips(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", "far", "--round-trips", "80", "--megabytes", "100",
        "--json", str(figures), "--directory", str(tmp_path), timeout_s=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    (row,) = [json.loads(line) for line in figures.read_text().splitlines()]
    assert row["records"] * 1024 == pytest.approx(100e6, rel=0.02)
    # One response at a time would need a round trip for each 2 MiB of the stream.
    print(f"{row['seconds']} s, one response at a time: at least {100e6 / (2 << 20) * 0.08:.1f} s")


@pytest.mark.long
def test_foreground_is_measured_beside_readers_compaction_and_faults(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    done = rhumbline(
        "bench", "beside", "--work", "W3-1000", "--readers", "2", "--mib", "32",
        "--seconds", "1.5", "--repetitions", "1", "--json", str(figures),
        "--directory", str(tmp_path), timeout_s=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found = [json.loads(line) for line in figures.read_text().splitlines()]
    assert [(row["w"], row["beside"]) for row in found] == [
        ("readers", "2-warm"), ("readers", "2-cold"),
        ("W3-1000", "quiet"), ("W3-1000", "2-warm"), ("W3-1000", "2-cold"),
        ("fill", "quiet"), ("W3-1000", "quiet"), ("W3-1000", "compaction"),
        ("W3-1000", "quiet"), ("W3-1000", "slow"), ("W3-1000", "hung"), ("W3-1000", "killed"),
    ]  # fmt: skip
    for row in found:
        if row["w"] == "W3-1000":
            assert 0 < row["p50_ms"] <= row["p999_ms"]
            assert 0 < row["del"]["p50_ms"] <= row["del"]["p999_ms"]
        if row["beside"] in ("2-warm", "2-cold"):
            assert row["readers_MB_s"] > 0


@pytest.mark.long
def test_a_drain_moves_all_ledgers_and_a_collection_deletes_the_garbage(tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    for command in (
        "drain --ledgers 40",
        "drain --ledgers 40 --round-trip 5",
        "bookie --only garbage --ledgers 2000",
        "bookie --only roll --ledgers 2000",
    ):
        done = rhumbline(
            "bench", *command.split(), "--json", str(figures), "--directory", str(tmp_path),
            timeout_s=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
    rows = {row["w"]: row for row in map(json.loads, figures.read_text().splitlines())}
    assert list(rows) == [
        "write", "audit", "drain", "garbage-before", "garbage", "roll-before", "roll"
    ]  # fmt: skip
    assert rows["write"]["ledgers"] == rows["audit"]["ledgers"] == 40
    assert 0 < rows["drain"]["ledgers"] <= 40
    assert rows["garbage"]["deleted"] == 20
    assert rows["garbage"]["max_ms"] > 0
    assert rows["roll"]["max_ms"] > 0


def test_unknown_part_is_refused_with_the_known_parts() -> None:
    done = rhumbline("bench", "beside", "--only", "idle")
    assert done.returncode == 2
    assert "unknown part idle; the parts are: readers, compaction, faults" in done.stderr.decode()
