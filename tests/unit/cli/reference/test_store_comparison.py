"""The page that compares the stores invents nothing: missing results are named as missing."""

import json
from pathlib import Path

from rhumbline.cli.reference.store_comparison import store_comparison_page

RESULTS = {
    "sqlite": {
        "version": "SQLite 3",
        "measured": "one day",
        "operations": {"get": {"p50_ms": 0.123, "p99_ms": 4.56, "per_s": 1234.5}},
        "watches": {"watches": 10_000, "armed_s": 1.5, "missed": 0, "p50_ms": 20, "p99_ms": 150},
        "children": {"children": 100_000, "one_call_ms": "MetadataUnavailableError"},
        "faults": {
            "locked": {
                "gap_ms": 3_000, "acknowledged": 100, "unavailable": 2, "unknown": 1, "lost": 0,
                "doubled": 0,
            }
        },
    },
    "etcd": {
        "size": {"rtt_ms": 90},
        "regions": {"another region": {"put": {"p50_ms": 160.2, "p99_ms": 165}}},
    },
}  # fmt: skip


def test_each_result_is_in_the_column_of_its_store(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps(RESULTS))
    page = store_comparison_page(file)
    assert "| FoundationDB | | not measured here |" in page
    assert "| SQLite | SQLite 3 | one day |" in page
    assert "| get | - | 0.12 / 4.6, 1,234/s | - | - | - |" in page
    assert "| watched nodes | - | 10,000 | - | - | - |" in page
    assert "| write to watch | - | 20.0 / 150 | - | - | - |" in page
    assert "| listed in one call | - | `MetadataUnavailableError` | - | - | - |" in page
    assert "| locked | SQLite | 3,000 ms | 100 | 2 | 1 | 0 | 0 |" in page
    assert "three regions that are 90 ms apart" in page
    assert "| put | - | - | - | 160 / 165 | - |" in page
