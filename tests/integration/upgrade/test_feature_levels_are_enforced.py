"""Real processes refuse a cluster at a feature level that they do not know."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rhumbline.backends.open_store import open_store
from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.cli.main import main
from rhumbline.client.system_runtime import run
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS, FeatureRecord
from rhumbline.core.protocol.errors import UnavailableError


def command(uri: str, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-u", uri])


async def set_level(uri: str, record: FeatureRecord) -> None:
    store = await open_store(uri)
    try:
        await store.put(Paths().feature_level, record.encode())
    finally:
        await store.close()


def test_an_old_program_refuses_to_start_and_says_why(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    assert command(uri, "cluster", "init").exit_code == 0
    named = ("--name", "b1", "--region", "eu")
    assert command(uri, "bookie", "format", str(tmp_path / "b1"), *named).exit_code == 0
    bookie = BookieProcess(tmp_path / "b1", uri, "--region", "eu")
    with bookie:
        shown = command(uri, "cluster", "features", "-o", "json")
        (process,) = json.loads(shown.stdout)["processes"]
        assert (process["kind"], process["newest_level"]) == ("bookie", KNOWN_LEVELS.newest)
        raised = command(uri, "cluster", "features", "--raise", str(KNOWN_LEVELS.newest))
        assert raised.exit_code == 0, raised.output
        too_far = command(uri, "cluster", "features", "--raise", str(KNOWN_LEVELS.newest + 1))
        assert (too_far.exit_code, "this program knows levels" in too_far.stderr) == (2, True)
    run(set_level(uri, FeatureRecord(KNOWN_LEVELS.newest + 1)))
    with pytest.raises(UnavailableError) as caught:
        bookie.start()
    assert f"is at feature level {KNOWN_LEVELS.newest + 1}, and this program" in str(caught.value)
    assert "install a newer version" in str(caught.value)
    refused = command(uri, "namespace", "ls", "-o", "json")
    event = json.loads(refused.stderr.splitlines()[-1])
    assert (refused.exit_code, event["code"]) == (1, "feature-level")
