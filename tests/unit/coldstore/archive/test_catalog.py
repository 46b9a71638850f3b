"""A manifest that cannot be used is named, and does not hide the other ones."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from rhumbline.cli.main import main
from rhumbline.coldstore.archive.catalog import list_manifests, read_manifest, scan_manifests
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError
from rhumbline.tests.unit.spark.spark_world import archive_on_disk, manifest_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an archive of four segments with one damaged and one foreign manifest."""
    archive_on_disk(tmp_path)
    damaged, foreign, unnumbered = bad_paths(tmp_path)
    damaged.write_bytes(b"{")
    foreign.write_bytes(foreign.read_bytes().replace(b'"format": 5', b'"format": 99'))
    unnumbered.write_bytes(b"{}")
    return tmp_path


def bad_paths(root: Path) -> list[Path]:
    """Return the manifests that are damaged, of another format, and without a number."""
    chain = manifest_path(root, 1).parent
    names = ("manifest-0000000000000000002", "manifest-0000000000000000004", "manifest-one")
    return [chain / f"{name}.json" for name in names]


def bad_keys(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in bad_paths(root)]


def test_a_listing_reports_damaged_manifests_and_goes_on(root: Path) -> None:
    cold = LocalColdStore(root)
    listing = asyncio.run(scan_manifests(cold, "test"))
    assert [manifest.lssn for manifest in listing.manifests] == [1, 3]
    damaged, foreign, _ = bad_keys(root)
    assert list(listing.faults) == bad_keys(root)
    for key, error in listing.faults.items():
        assert str(error).startswith(f"{key}: ")
    with pytest.raises(CorruptionError, match=damaged):
        asyncio.run(list_manifests(cold, "test"))
    with pytest.raises(ForeignDataError, match=foreign):
        asyncio.run(read_manifest(cold, listing.manifests[0].folder, 4))


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
    for key in bad_keys(root):
        assert key in done.output
