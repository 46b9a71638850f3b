"""Compaction and erasure read the feature level, and erasure says what it did not reach."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from rhumbline.cli.main import main
from rhumbline.tests.support.fakes.raised_level import raise_level
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster
from rhumbline.tests.support.processes.process_cluster import RHUMBLINE

ERASE = ["spark", "erase", f"test/{STREAM}", "--before-time", "2020-01-01T00:00Z", "--by", "me",
         "--reason", "17"]  # fmt: skip


@pytest.mark.parametrize("job", [["spark", "compact"], ERASE])
def test_a_cluster_below_the_level_is_refused(job: list[str], tmp_path: Path) -> None:
    """A reader of an earlier version would return the erased records from the old files."""
    cluster = ["--metadata", f"sqlite://{tmp_path}/metadata.db"]
    runner = CliRunner()
    assert runner.invoke(main, ["cluster", "init", *cluster]).exit_code == 0
    given = [*job, *cluster, "--cold", (tmp_path / "cold").as_uri(), "--output", "json"]
    refused = runner.invoke(main, given)
    assert refused.exit_code == 1
    event = json.loads(refused.stderr)
    assert event["code"] == "feature-level"
    assert "cluster features --raise 4" in event["text"]
    assert not (tmp_path / "cold").exists()


@pytest.mark.long
def test_an_erasure_names_the_segments_that_bookies_hold(tmp_path: Path) -> None:
    with BackgroundCluster(tmp_path) as cluster:
        cluster.run(raise_level(cluster.client.store))
        cluster.write_segments(2)
        given = [*ERASE, "--metadata", cluster.metadata_uri, "--cold", cluster.cold_uri]
        given = [str(RHUMBLINE), *given, "--master", "local[1]"]
        done = subprocess.run([*given, "--output", "json"], capture_output=True, timeout=200)
        found = json.loads(done.stdout)
        segments = cluster.run(cluster.client.namespace().describe(STREAM)).segments
        hot = [one for one in segments if not one.is_completed or one.record_count]
        assert done.returncode == 5
        assert "INCOMPLETE" in found["message"]
        (line,) = found["remaining"]
        assert line.startswith(f"test/{STREAM}: bookies hold {len(hot)} segments (1-{len(hot)})")
        at, end = given.index("--metadata"), given.index("--cold")
        without = [*given[:at], "--without-cluster", *given[end:]]
        done = subprocess.run(without, capture_output=True, timeout=200)
        assert done.returncode == 0
        assert b"copies on bookies were not examined" in done.stdout
