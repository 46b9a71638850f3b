"""A manifest that cannot be used is named, and does not hide the other ones."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from rhumbline.cli.main import main
from rhumbline.coldstore.archive.catalog import list_manifests, read_manifest, scan_manifests
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.tests.unit.spark.spark_world import archive_on_disk

DAMAGED = "test/s/lssn=0000000000000000002/manifest.json"
FOREIGN = "test/s/lssn=0000000000000000004/manifest.json"
UNNUMBERED = "test/s/lssn=one/manifest.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an archive of four segments with one damaged and one foreign manifest."""
    archive_on_disk(tmp_path)
    (tmp_path / DAMAGED).write_bytes(b"{")
    foreign = tmp_path / FOREIGN
    foreign.write_bytes(foreign.read_bytes().replace(b'"format": 3', b'"format": 99'))
    (tmp_path / UNNUMBERED).parent.mkdir()
    (tmp_path / UNNUMBERED).write_bytes(b"{}")
    return tmp_path


def test_a_listing_reports_damaged_manifests_and_goes_on(root: Path) -> None:
    cold = LocalColdStore(root)
    listing = asyncio.run(scan_manifests(cold, "test"))
    assert [manifest.lssn for manifest in listing.manifests] == [1, 3]
    assert list(listing.faults) == [DAMAGED, FOREIGN, UNNUMBERED]
    for key, error in listing.faults.items():
        assert str(error).startswith(f"{key}: ")
    with pytest.raises(CorruptionError, match=DAMAGED):
        asyncio.run(list_manifests(cold, "test"))
    with pytest.raises(ForeignDataError, match=FOREIGN):
        asyncio.run(read_manifest(cold, "test", "s", 4))


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_commands_list_the_other_segments_and_name_the_damaged_manifest(
    root: Path, command: str
) -> None:
    """One damaged manifest stopped both commands for the whole store, and was not named."""
    given = ["archive", command, "--cold", root.as_uri(), "-o", "json"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code != 0
    assert '"segment": 1' in done.output
    assert '"segment": 3' in done.output
    for key in (DAMAGED, FOREIGN, UNNUMBERED):
        assert key in done.output
