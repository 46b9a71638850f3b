"""The package in docs/examples/example-stores: built, installed, checked, and used by a cluster."""

import shutil
import sys
from pathlib import Path

import pytest

from rhumbline.backends.conformance.kit import all_checks
from rhumbline.coldstore.stores.conformance import CHECKS
from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, succeeded
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "docs/examples/example-stores"
SEGMENT = b"".join(b"record %d\n" % number for number in range(1_000))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which the package's wheel was installed, without a network."""
    folder = tmp_path_factory.mktemp("example")
    source = folder / "source"
    shutil.copytree(
        EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg*")
    )
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    run(*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    run(*pip, "install", *offline, "--target", folder / "packages", wheel, cwd=folder)
    return folder / "packages"


def test_the_example_passes_every_check_of_the_kits(installed: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "test_contract.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_contract.py"]
    output = run(*command, cwd=tmp_path, python_path=installed)
    print(output)
    assert f"{len(all_checks()) + len(CHECKS)} passed in" in output
    assert "skipped" not in output


def test_a_cluster_uses_the_stores_by_their_uris(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = f"locked-file://{tmp_path}/metadata"
    cold = f"sqlite-cold://{tmp_path}/cold.db"
    code, line = refusal("cluster", "init", "-u", metadata)
    assert code == 2
    assert "unknown scheme 'locked-file' (known: memory, sqlite, zk, etcd, fdb)" in line
    monkeypatch.setenv("PYTHONPATH", str(installed))
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), metadata=metadata) as cluster:
        cluster.run("stream", "create", "orders")
        cluster.run("stream", "append", "orders", stdin=SEGMENT)
        cluster.run("stream", "append", "orders", stdin=b"the owner changed\n")
        cluster.run("archive", "run", "--cold", cold)
        assert "orders" in cluster.run("archive", "ls", "--cold", cold).decode()
        cluster.run("archive", "verify", "--cold", cold)
        for bookie in cluster.bookies:
            bookie.kill()
            bookie.start()
        expected = SEGMENT + b"the owner changed\n"
        assert cluster.run("stream", "read", "orders") == expected
        succeeded("metadata", "migrate", metadata, f"sqlite://{tmp_path}/m.db")
        assert cluster.run("stream", "read", "orders") == expected
        cluster.run("stream", "append", "orders", stdin=b"after a migration\n")
        succeeded("metadata", "migrate", f"sqlite://{tmp_path}/m.db", metadata)
        assert cluster.run("stream", "read", "orders") == expected + b"after a migration\n"
