"""`rhumbline archive` processes that are killed repeatedly leave whole archives or none.

The test kills real processes with SIGKILL at random times. At the end one process finishes, and the
archive then has every record once.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.coldstore.archive.catalog import list_manifests
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.archive.part import read_part
from rhumbline.coldstore.proof.chain_tip import read_tip
from rhumbline.coldstore.proof.verify import verify_segment
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support.processes.background_cluster import REGION, BackgroundCluster
from rhumbline.tests.support.processes.process_cluster import RHUMBLINE
from rhumbline.tests.support.servers import cold_servers

KILLS = int(os.environ.get("RHUMBLINE_ARCHIVER_KILLS", "3"))
SEGMENTS_PER_KILL = 6
"""Approximate number of segments that are archived between two kills."""

pytestmark = pytest.mark.timeout(300 + 60 * KILLS)


class StoreLocation:
    """The location of a cold store, for archiver processes and for the test itself."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._folder = folder
        self.environ = dict(os.environ)
        self.uri = folder.as_uri()
        self._is_s3 = kind == "s3"
        if self._is_s3:
            server = cold_servers.s3()
            self.uri = f"s3://{server.bucket}/killed?endpoint=http://{server.address}"
            self.environ |= {
                "RHUMBLINE_S3_ACCESS_KEY": server.access_key,
                "RHUMBLINE_S3_SECRET_KEY": server.secret_key,
            }

    def opened(self) -> ColdStore:
        return (
            cold_servers.s3_store(prefix="killed") if self._is_s3 else LocalColdStore(self._folder)
        )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    """A stream with enough completed segments for all kills."""
    with BackgroundCluster(tmp_path) as cluster:
        cluster.write_segments(SEGMENTS_PER_KILL * (KILLS + 1))
        yield cluster


async def whole_manifests(store: ColdStore) -> list[Manifest]:
    """Return the manifests of the archive, after verifying each archived segment."""
    found = await list_manifests(store)
    for manifest in found:
        await verify_segment(store, manifest)
    return found


async def payloads(store: ColdStore) -> list[bytes]:
    """Return every record of the archive, which must hold only its parts and manifests."""
    found: list[bytes] = []
    keys: set[str] = set()
    for manifest in await whole_manifests(store):
        keys.add(manifest.key)
        tip = await read_tip(store, manifest.folder)
        assert tip is not None
        keys.add(manifest.folder.tip(tip.name))
        for part in manifest.parts:
            keys.add(manifest.part_key(part))
            for record_set in read_part(await store.get(manifest.part_key(part)), manifest.lssn):
                found += record_set.payloads
    assert set(await store.list("test")) == keys, "a killed archiver left other objects"
    return found


class Archiver:
    """A runner of `rhumbline archive COMMAND` with a cluster and a store."""

    def __init__(self, cluster: BackgroundCluster, location: StoreLocation, log: Path) -> None:
        self._where = [
            "--cold", location.uri, "--metadata", cluster.metadata_uri, "-n", "test",
            "--region", REGION,
        ]  # fmt: skip
        self._environ = location.environ
        self._log = log

    def finished(self, command: str, *words: str) -> bytes:
        done = subprocess.run(
            [str(RHUMBLINE), "archive", command, *words, *self._where],
            env=self._environ, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def kill_at(self, command: str, is_reached: Callable[[], bool], pause_s: float) -> None:
        """Start a process and kill it ``pause_s`` seconds after ``is_reached`` returns True."""
        process = ManagedProcess(
            "archiver",
            rhumbline_command("archive", command, *self._where),
            self._log,
            ready=is_reached,
            ready_s_max=120,
            environ=self._environ,
        )
        process.start()
        time.sleep(pause_s)
        process.kill()


@pytest.mark.parametrize(
    "kind", ["local", pytest.param("s3", marks=pytest.mark.needs_server("s3"))]
)
def test_killed_archivers_leave_whole_archives_or_none(
    kind: str, cluster: BackgroundCluster, tmp_path: Path
) -> None:
    """The first process is the service; its claim of the stream must not delay the others."""
    location, random = StoreLocation(kind, tmp_path / "killed"), Random(11)
    archiver = Archiver(cluster, location, tmp_path / "log")
    store = location.opened()
    with asyncio.Runner() as runner:
        for number in range(KILLS):
            before = len(runner.run(list_manifests(store)))
            # A segment has a manifest and a part. The stream has a tip.
            objects = 2 * (before + random.randrange(1, SEGMENTS_PER_KILL))
            archiver.kill_at(
                "run" if number else "serve",
                lambda: len(runner.run(store.list("test"))) >= objects,  # noqa: B023 - called at once
                random.uniform(0, 0.03),
            )
            runner.run(whole_manifests(store))
        assert json.loads(archiver.finished("run", "--output", "json")), (
            "the last run had no segments to archive"
        )
        assert runner.run(payloads(store)) == cluster.written
        archiver.finished("verify")
        runner.run(store.close())
