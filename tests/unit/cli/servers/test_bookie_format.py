"""Tests of `rhumbline bookie format --unless-formatted`, as the start of a container calls it."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from rhumbline.cli.exit_codes import EXIT_FAILED
from rhumbline.cli.main import main


def invoke(*arguments: str | Path) -> Result:
    """Run a command with the cluster of this folder."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def formatted(folder: Path, name: str = "b1", region: str = "eu", store: str = "m.db") -> Result:
    """Format ``folder``/data unless it is formatted."""
    return invoke(
        *("bookie", "format", folder / "data", "--name", name, "--region", region),
        *("-u", f"sqlite://{folder / store}", "--unless-formatted", "-o", "json"),
    )


def test_second_format_keeps_the_bookie_and_others_are_refused(tmp_path: Path) -> None:
    for store in ("m.db", "other.db"):
        assert invoke("cluster", "init", "-u", f"sqlite://{tmp_path / store}").exit_code == 0
    first, second = formatted(tmp_path), formatted(tmp_path)
    assert (first.exit_code, second.exit_code) == (0, 0)
    bookie = json.loads(first.stdout)["bookie"]
    assert bookie.startswith("b1@")
    assert json.loads(second.stdout)["bookie"] == bookie
    other_name = formatted(tmp_path, name="b2")
    assert other_name.exit_code == EXIT_FAILED
    assert "in region eu, not b2 in eu" in other_name.output
    other_region = formatted(tmp_path, region="us")
    assert "in region eu, not b1 in us" in other_region.output
    other_cluster = formatted(tmp_path, store="other.db")
    assert "the metadata store belongs to cluster" in other_cluster.output
    assert json.loads(formatted(tmp_path).stdout)["bookie"] == bookie
