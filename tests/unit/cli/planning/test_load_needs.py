"""``rhumbline plan --load``: what a load needs, and all errors of its files at once."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rhumbline.cli.main import main

TOPOLOGY = "regions = { bonn = 3, oslo = 3, rome = 3 }\n"
LOAD = """
[load]
records_per_second = 20000
record_bytes = "1KiB"
streams = 200
flush_ms = "10ms"
hot_retention_ms = "3d"
archive_retention_ms = "365d"
archive_ratio = 0.4
"""
PRICES = """
[machine]
cores = 8
disk_bytes = "4TiB"
price_per_month = 300

[prices]
currency = "EUR"
wan_per_gib = 0.02
archive_per_gib_month = 0.01
"""


def plan(folder: Path, *options: str, load: str = LOAD, prices: str = PRICES) -> Result:
    for name, text in (("topology", TOPOLOGY), ("load", load), ("prices", prices)):
        (folder / f"{name}.toml").write_text(text)
    words = ["plan", str(folder / "topology.toml"), "--quorum", "3/3/2/2"]
    files = [word.replace("@", f"{folder}/") for word in options]
    return CliRunner().invoke(main, [*words, *files])


def test_machines_traffic_and_cost_are_planned(tmp_path: Path) -> None:
    result = plan(tmp_path, "--load", "@load.toml", "--prices", "@prices.toml", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["load"]
    assert found["append_bytes_per_second"] == 20_000 * 1024 * 2
    assert found["wan_bytes_per_second"] == 2 * found["append_bytes_per_second"]
    assert found["hot_bytes"] == 20_000 * 1024 * 3 * 3 * 86_400
    assert found["bookies"]["machines"] == 7
    assert found["bookies"]["limited_by"] == "disk space"
    assert found["proxies"]["machines"] == 6
    assert found["currency"] == "EUR"
    parts = ("machines_per_month", "wan_per_month", "archive_per_month")
    assert found["cost_per_month"] == pytest.approx(sum(found[name] for name in parts), abs=0.02)


def test_without_prices_the_costs_are_unknown(tmp_path: Path) -> None:
    result = plan(tmp_path, "--load", "@load.toml", "-o", "json")
    assert json.loads(result.stdout)["load"]["cost_per_month"] is None
    shown = plan(tmp_path, "--load", "@load.toml")
    table = shown.stdout.partition("THE LOAD NEEDS")[2]
    assert "disk space decides" in table
    assert max(map(len, table.splitlines())) < 80


def test_all_faults_of_the_files_are_reported_at_once(tmp_path: Path) -> None:
    load = "[load]\nrecord_bytes = 0\nspeed = 1\n[lod]\n"
    result = plan(
        tmp_path,
        "--load",
        "@load.toml",
        "--prices",
        "@prices.toml",
        load=load,
        prices="prices = 1",
    )
    assert result.exit_code == 2
    for fault in (
        "unknown section [lod]; did you mean load?",
        "unknown key speed",
        "records_per_second is missing",
        "hot_retention_ms is missing",
        "record_bytes: 0 is not between 1 and",
        "prices must be a section: [prices]",
    ):
        assert fault in result.stderr, fault
    assert plan(tmp_path, "--prices", "@prices.toml").exit_code == 2
    assert plan(tmp_path, "--load", "@absent.toml").exit_code == 2
