"""``rhumbline plan`` from a file: result, exit code, and all errors of the file at once."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rhumbline.cli.main import main
from rhumbline.cli.planning.plan import spread_by_level
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo

THREE = """
regions = { bonn = 2, oslo = 2, rome = 2 }
[round_trip_ms]
bonn = { oslo = 24, rome = 30 }
oslo = { rome = 52 }
"""


def plan(tmp_path: Path, text: str, *options: str) -> Result:
    file = tmp_path / "topology.toml"
    file.write_text(text)
    return CliRunner().invoke(main, ["plan", str(file), *options])


def test_legal_quorum_is_described(tmp_path: Path) -> None:
    result = plan(tmp_path, THREE, "--quorum", "3/3/2/2", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["legal"]
    assert found["robust"]
    assert found["any_regions_survived"] == 1
    assert found["ack"]["bonn"] == {"p50_ms": 24.3, "p99_ms": 24.3}
    assert found["wan_bytes_per_byte"] == 2.0
    assert len(found["losses"]) == 6


def test_four_numbers_may_be_given_separately(tmp_path: Path) -> None:
    result = plan(tmp_path, THREE, "--e", "3", "--wq", "3", "--aq", "2", "--r", "2")
    assert result.exit_code == 0, result.output
    assert "3/3/2/R2: legal, robust" in result.stdout


def test_refusal_names_the_rule_and_the_nearest_legal_quorum(tmp_path: Path) -> None:
    result = plan(tmp_path, THREE, "--quorum", "3/3/2/3")
    assert result.exit_code == 3
    assert "R=3 is above AQ=2" in result.stdout
    assert "nearest accepted: 3/3/2/R2" in result.stdout


def test_unmet_survival_requirement_exits_with_3(tmp_path: Path) -> None:
    assert plan(tmp_path, THREE, "--quorum", "3/3/2/2", "--must-survive", "1").exit_code == 0
    result = plan(tmp_path, THREE, "--quorum", "3/3/2/2", "--must-survive", "2")
    assert result.exit_code == 3


@pytest.mark.parametrize("options", [(), ("--quorum", "3/3"), ("--quorum", "3/3/2", "--e", "3")])
def test_invalid_quorum_is_a_usage_error(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert plan(tmp_path, THREE, *options).exit_code == 2


def test_all_errors_of_the_file_are_reported(tmp_path: Path) -> None:
    text = "regions = { bonn = -1, oslo = 2, rome = 2 }\n[round_trip_ms]\noslo = { rome = 'far' }"
    result = plan(tmp_path, text, "--quorum", "3/3/2/2")
    assert result.exit_code == 2
    assert result.stderr.count("topology.toml: ") == 2


def test_the_spread_of_the_live_bookies_is_shown_by_level() -> None:
    bookies = [
        BookieInfo(BookieId(f"b{number}@00000001"), Region("a"), f"r{number % 3}", host="h")
        for number in range(4)
    ]
    rows = {row["level"]: row for row in spread_by_level((4, 3, 2, 1), bookies)}
    assert rows["rack"] == {
        "level": "rack",
        "in_the_cluster": 3,
        "of_each_write_set": 2,
        "is_spread": False,
    }
    assert rows["zone"]["is_spread"]
    assert all(row["is_spread"] for row in spread_by_level((3, 3, 2, 1), bookies))


def test_the_hosts_of_a_planned_region_bound_the_spread(tmp_path: Path) -> None:
    for hosts, of_each, is_spread in ((2, 2, True), (3, 3, True)):
        text = f"[regions.a]\nbookies = 6\nhosts = {hosts}\n"
        result = plan(tmp_path, text, "--quorum", "3/3/2/1", "-o", "json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["spread"] == [
            {
                "level": "host",
                "in_the_cluster": hosts,
                "of_each_write_set": of_each,
                "is_spread": is_spread,
            }
        ]
    result = plan(tmp_path, "[regions.a]\nbookies = 2\nhosts = 3\n", "--quorum", "2/2/2/1")
    assert result.exit_code == 2
    assert "regions.a: hosts must be an integer from 1 to 2" in result.stderr
