"""Benchmarks of several regions, very short, on real processes: safety and shape, no timings."""

import json
from pathlib import Path
from typing import Any

import pytest

from rhumbline.tests.support.processes.process_cluster import rhumbline


def rows_of(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    figures = tmp_path / "figures.jsonl"
    completed = rhumbline(
        "bench", *arguments, "--json", str(figures), "--directory", str(tmp_path), timeout_s=110
    )
    assert completed.returncode == 0, completed.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["figures.jsonl"], "no files are left"
    return [json.loads(line) for line in figures.read_text().splitlines()]


@pytest.mark.long
def test_records_written_across_regions_are_stored_once_and_survive_a_cut(
    tmp_path: Path,
) -> None:
    rows = rows_of(
        tmp_path, "regions", "--only", "D1", "--streams", "4", "--rate", "100", "--seconds", "0.3",
        "--round-trip", "20",
    )  # fmt: skip
    kinds = ["D1-open", *(f"D1-{phase}-{mode}" for phase in ("near", "far") for mode in MODES)]
    kinds += ["D1-cut", *(f"D1-lost-{mode}" for mode in MODES), "D1-read-back"]
    assert [row["w"] for row in rows] == kinds
    by_name = {row["w"]: row for row in rows}
    for name in ("D1-far-rate", "D1-lost-rate", "D1-far-closed"):
        assert by_name[name]["p50_ms"] > 19, "every acknowledgement includes another region"
    assert by_name["D1-far-rate"]["plan_p50_ms"] >= 20
    assert by_name["D1-read-back"]["records"] > 0


MODES = ("rate", "closed", "window")


@pytest.mark.long
def test_reads_avoid_a_slow_replica_with_few_extra_requests(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path, "speculation", "--entries", "100", "--rate", "40", "--seconds", "1",
        "--round-trip", "10",
    )  # fmt: skip
    faults = ("none", "slow", "stopped")
    kinds = [(f"local-{fault}", kind) for fault in faults for kind in ("speculation", "none")]
    assert [(row["w"], row["peer"]) for row in rows] == kinds
    for row in rows:
        assert row["reads"] > 0
        assert row["extra"] <= 0.1 * row["reads"] + 10 + 2, "the budget: share, burst, rate"
        if row["peer"] == "none":
            assert row["extra"] == 0
    with_it, without = rows[-2:]
    assert without["max_ms"] > 1_000, "a stopped process does not respond"
    assert with_it["p50_ms"] < without["max_ms"]


@pytest.mark.long
def test_lost_bookie_is_replaced_while_writers_continue(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path, "lost", "--size", "50MiB", "--seconds", "1", "--rate", "20", "--streams", "4",
        "--seconds-max", "90", "--replace-after", "2s",
    )  # fmt: skip
    by_name = {row["w"]: row for row in rows}
    assert list(by_name) == ["fill", "before", "during", "after", "read-back"]
    during = by_name["during"]
    assert during["appends"] > 0
    assert during["moved_bytes"] >= by_name["fill"]["bytes"], "all copies of the lost bookie"
    assert during["entries_at_risk"] == {"a": 0, "b": 0, "c": 0}
    assert by_name["read-back"]["records"] > 0


@pytest.mark.long
def test_slow_bookie_is_slow_for_writers_that_stay(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path, "slow-bookie", "--before", "3", "--slow", "5", "--rate", "40", "--streams", "4",
        "--factor", "20",
    )  # fmt: skip
    stays, leaves = rows
    assert [stays["w"], leaves["w"]] == ["stays", "leaves"]
    assert stays["ensemble_changes"] == 0
    for row in rows:
        assert len(row["p99_ms_by_second"]) == 8
        assert row["records"] > 0
    assert stays["p50_ms"] >= stays["latency_ms"], "the bookie takes longer than before"
