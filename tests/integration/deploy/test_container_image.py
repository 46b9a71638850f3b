"""The container image: a bookie on etcd starts in it, with a root that cannot be written.

Nobody had started the image: it had no libstdc++, which gRPC needs, and root owned its volume.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.compiled_form import compiled_wheel
from rhumbline.tests.support.processes.process_cluster import RHUMBLINE
from rhumbline.tests.support.servers import installs, metadata_servers
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.needs_server("etcd"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
_ENGINE = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""
_HARDENED = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges:true",
)  # fmt: skip


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Build and load the image, and return its name; podman keeps all it has in ``tmp_path``."""
    try:
        installs.require_packages("mmdebstrap", "buildah", "podman", "runc")
    except installs.NotInstalledError as error:
        pytest.skip(str(error))
    storage = tmp_path / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{tmp_path}/pod"\nrunroot = "{tmp_path}/run"\n'
    )
    engine = tmp_path / "containers.conf"
    engine.write_text(_ENGINE)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    monkeypatch.setenv("CONTAINERS_CONF", str(engine))
    monkeypatch.setenv("WHEEL", str(compiled_wheel()))
    image = tmp_path / "rhumbline.tar"
    run(str(ROOT / "deploy/container/build.sh"), str(image))
    print(f"image: {image.stat().st_size / 1e6:.0f} MB")
    try:
        loaded = run("podman", "load", "--input", str(image))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"podman does not work here: {error.stderr}")
    yield loaded.split()[-1]
    run("podman", "rm", "--all", "--force", "--volumes")


def run(*command: str) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout.strip()


def test_a_bookie_starts_without_a_writable_root(podman: str) -> None:
    etcd = f"etcd://{metadata_servers.etcd().address}/image"
    options = (
        f"--env=RHUMBLINE_CLUSTER__METADATA={etcd}", "--env=RHUMBLINE_CLUSTER__REGION=local",
        "--network=host", "--volume=bookie:/var/lib/rhumbline", *_HARDENED,
    )  # fmt: skip
    try:
        run("podman", "run", "--rm", *options, podman, "cluster", "init", "--regions", "local")
    except subprocess.CalledProcessError as error:
        assert "OCI" in error.stderr, error.stderr
        pytest.skip(f"containers do not run here: {error.stderr}")
    place = "/var/lib/rhumbline/bookie"
    run("podman", "run", "--rm", *options, podman, "bookie", "format", place, "--name", "b1")
    began = time.monotonic()
    ports = ("--port", "0", "--status-port", "0")
    run("podman", "run", "--detach", "--name=b1", *options, podman, "bookie", "run", place, *ports)
    while "serves" not in (log := run("sh", "-c", "podman logs b1 2>&1")):
        assert time.monotonic() < began + 60, log
        time.sleep(0.02)
    print(f"start: {time.monotonic() - began:.2f} s")
    nodes = run(str(RHUMBLINE), "node", "ls", "-u", etcd)
    assert run("podman", "exec", "b1", "id", "--user") == "65532"
    assert re.search(r"b1@\w+ +local +writable", nodes), nodes
    run("podman", "stop", "b1")
