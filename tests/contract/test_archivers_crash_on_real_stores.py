"""An archiver that dies at any call of the cold store leaves no archive or a whole one.

On real stores: before the call, so that it never happened, and behind it, so that nobody saw that
it did. The next archiver makes it whole and removes what the dead one left.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.catalog import list_manifests, read_manifest
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.archive.verify import verify_segment
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster
from rhumbline.tests.support.servers import cold_servers

pytestmark = pytest.mark.timeout(300)


class _CrashError(BaseException):
    """Nobody catches it: the end of an archiver."""


class Mortal:
    """A cold store whose user dies at call ``at``, before it or behind it."""

    def __init__(self, store: ColdStore, at: int, is_before: bool) -> None:
        self._store = store
        self._left = at
        self._is_before = is_before
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any call
        call = getattr(self._store, name)

        async def counted(*given: object) -> object:
            self._left -= 1
            self.log.append(name)
            if self._left == 0 and self._is_before:
                raise _CrashError
            is_last = self._left == 0
            try:
                return await call(*given)
            finally:
                if is_last:
                    raise _CrashError

        return counted


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundCluster]:
    """A stream with two completed segments."""
    with BackgroundCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.write_segments(2)
        yield cluster


def started(kind: str) -> Callable[[Path], ColdStore]:
    """Opens stores, each in a fresh place. Servers end with the thread that starts them: this."""
    if kind == "s3":
        cold_servers.s3()
        return lambda _: cold_servers.s3_store()
    if kind == "hdfs":
        cold_servers.hdfs()
        return lambda _: cold_servers.hdfs_store()
    return LocalColdStore


@pytest.mark.parametrize(
    "kind",
    [
        "local",
        pytest.param("s3", marks=pytest.mark.needs_server("s3")),
        pytest.param("hdfs", marks=pytest.mark.needs_server("hdfs")),
    ],
)
def test_a_crash_at_any_call_leaves_no_archive_or_a_whole_one(
    kind: str, cluster: BackgroundCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = started(kind)
    monkeypatch.setattr(archive_module, "PART_PAYLOAD_BYTES", 6000)

    def archiver(cold: Any) -> SegmentArchiver:  # noqa: ANN401 - Mortal is no ColdStore
        client = cluster.client
        return SegmentArchiver(
            client.runtime, cold, client.ledgers, StreamStore(client.store, "test")
        )

    async def crash(store: ColdStore, at: int, is_before: bool) -> tuple[bool, str]:
        """(did it come to its end, is there an archive)."""
        mortal = Mortal(store, at, is_before)
        try:
            await archiver(mortal).archive(STREAM, 1)
        except _CrashError:
            is_over = False
        else:
            is_over = True
        left = await read_manifest(store, "test", STREAM, 1)
        if left is None:
            assert await list_manifests(store) == []
        else:
            await verify_segment(store, left)
        whole = await archiver(store).archive(STREAM, 1)
        await verify_segment(store, whole)
        assert left is None or left == whole
        assert len(whole.parts) > 1
        assert len(await store.list("test")) == 1 + len(whole.parts), "nothing else is left"
        await store.close()
        return is_over, "none" if left is None else "whole"

    async def crashes() -> None:
        numbers = count()
        # Behind a call is before the next one; the dearest store is spared the repeat.
        for is_before in (False,) if kind == "hdfs" else (True, False):
            outcomes: list[str] = []
            is_over = False
            while not is_over:
                store = opened(tmp_path / str(next(numbers)))
                is_over, left = await crash(store, len(outcomes) + 1, is_before)
                outcomes.append(left)
            # One border: before it there is nothing, from it on all of it.
            assert outcomes == sorted(outcomes), outcomes
            assert outcomes[0] == "none"
            assert outcomes.count("none") >= 4

    cluster.run(asyncio.wait_for(crashes(), 200), timeout_s=220)
