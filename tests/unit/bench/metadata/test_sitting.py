"""The benchmark of metadata stores measures every part, and keeps the results of other stores."""

import json
from pathlib import Path

import pytest

from rhumbline.bench.metadata.sitting import (
    MEMORY,
    PARTS,
    SQLITE,
    SittingSize,
    measure_store,
    merge_results,
)
from rhumbline.core.protocol.errors import InvalidArgumentError

SIZE = SittingSize(seconds=0.05, watches=10, children=1_100, fault_s=0.2, rtt_ms=0)


async def test_a_store_without_servers_is_measured_in_every_part_that_applies(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    found = await measure_store(MEMORY, tmp_path, PARTS, SIZE, notes.append)
    assert notes == ["memory: operations", "memory: watches", "memory: children"]
    assert set(found) == {"version", "measured", "size", "operations", "watches", "children"}
    assert found["operations"]["put"]["per_s"] > 0
    assert found["watches"]["watches"] == 10
    assert found["watches"]["missed"] == 0
    assert found["children"]["children"] == 1_100
    assert found["children"]["all_pages_ms"] >= 0


async def test_a_locked_file_loses_no_write(tmp_path: Path) -> None:
    found = await measure_store(SQLITE, tmp_path, ["faults"], SIZE, lambda _: None)
    (row,) = found["faults"].values()
    assert row["gap_ms"] >= 150
    assert row["acknowledged"] >= 80
    assert (row["lost"], row["doubled"]) == (0, 0)


async def test_an_unknown_store_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="known: memory, sqlite, zookeeper, etcd"):
        await measure_store("paper", tmp_path, PARTS, SIZE, lambda _: None)


def test_results_of_other_stores_and_parts_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    merge_results(file, "sqlite", {"operations": {"get": {"p50_ms": 1}}})
    merge_results(file, "etcd", {"operations": {}})
    merge_results(file, "sqlite", {"watches": {"watches": 5}})
    assert json.loads(file.read_text()) == {
        "etcd": {"operations": {}},
        "sqlite": {"operations": {"get": {"p50_ms": 1}}, "watches": {"watches": 5}},
    }
