"""An archiver that crashes at any call of the cold store leaves a whole archive or none.

It crashes before a call, which then has no effect, or after a call, whose result it then does not
see. The next archiver completes the archive and removes the remains. The stores are real ones.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.archive.catalog import list_manifests
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.proof.verify import verify_segment
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster
from rhumbline.tests.support.servers import cold_servers

pytestmark = pytest.mark.timeout(300)


class _CrashError(BaseException):
    """The simulated crash of an archiver; nothing catches it."""


class CrashingStore:
    """A cold store whose user crashes at call number ``at``, before it or after it."""

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
    """Return a function that opens an empty store.

    Servers end with the thread that starts them, so they are started here, in the main thread.
    """
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
        pytest.param("hdfs", marks=[pytest.mark.needs_server("hdfs"), pytest.mark.long]),
    ],
)
def test_a_crash_at_any_call_leaves_a_whole_archive_or_none(
    kind: str, cluster: BackgroundCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = started(kind)
    small = ArchiveConfig(part_bytes=2_000, row_group_bytes=3_000)
    monkeypatch.setattr(archive_module, "DEFAULTS", small)

    def archiver(cold: Any) -> SegmentArchiver:  # noqa: ANN401 - a CrashingStore has only __getattr__
        client = cluster.client
        return SegmentArchiver(
            client.runtime, cold, client.ledgers, StreamStore(client.store, "test")
        )

    async def crash(store: ColdStore, at: int, is_before: bool) -> tuple[bool, str]:
        """Return whether the archiver completed, and "whole" or "none" for its archive."""
        crashing = CrashingStore(store, at, is_before)
        try:
            await archiver(crashing).archive(STREAM, 1)
        except _CrashError:
            is_complete = False
        else:
            is_complete = True
        left = next(iter(await list_manifests(store)), None)
        if left is not None:
            await verify_segment(store, left)
        whole = await archiver(store).archive(STREAM, 1)
        await verify_segment(store, whole)
        assert left is None or left == whole
        assert len(whole.parts) > 1
        assert len(await store.list("test")) == 2 + len(whole.parts), (
            "objects of the crashed archiver are left"
        )
        await store.close()
        return is_complete, "none" if left is None else "whole"

    async def crashes() -> None:
        numbers = count()
        # After a call is before the next one, so the slowest store tests only one of the two.
        for is_before in (False,) if kind == "hdfs" else (True, False):
            outcomes: list[str] = []
            is_complete = False
            while not is_complete:
                store = opened(tmp_path / str(next(numbers)))
                is_complete, left = await crash(store, len(outcomes) + 1, is_before)
                outcomes.append(left)
            # Up to some call there is no archive, and from it on a whole one.
            assert outcomes == sorted(outcomes), outcomes
            assert outcomes[0] == "none"
            assert outcomes.count("none") >= 4

    cluster.run(asyncio.wait_for(crashes(), 200), timeout_s=220)
