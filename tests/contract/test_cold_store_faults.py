"""Real cold stores through broken ways: an object is there whole or not at all, and errors say so.

Uploads that are cut, repeated, slow or unanswered go through Toxiproxy; stores that are full or
refuse are the servers' own doing; listings that are late are made late on the way to us.
"""

import asyncio
import errno
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from requests.adapters import HTTPAdapter

from rhumbline.coldstore.catalog import read_manifest
from rhumbline.coldstore.hdfs import HdfsColdStore, HdfsOptions
from rhumbline.coldstore.local import LocalColdStore
from rhumbline.coldstore.manifest import Manifest, Part
from rhumbline.coldstore.stream_index import StreamIndex
from rhumbline.core.protocol.errors import (
    DiskFullError,
    NoSuchObjectError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support import cold_servers, servers
from rhumbline.tests.support.servers import Proxy

DATA = bytes(range(256)) * 4096
"""1 MiB."""

pytestmark = pytest.mark.timeout(300)


class _Elsewhere(HTTPAdapter):
    """Sends requests for one address to another one."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def send(self, request: Any, *args: Any, **given: Any) -> Any:  # noqa: ANN401
        _, _, path = request.url.removeprefix("http://").partition("/")
        request.url = f"http://{self._address}/{path}"
        return super().send(request, *args, **given)


class Way:
    """A store behind a proxy, and the same store straight."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._place = f"faults-{next(_NUMBERS)}"
        upstream = cold_servers.s3().address if kind == "s3" else cold_servers.hdfs().data_address()
        self.proxy: Proxy = servers.toxiproxy().proxy(upstream)
        self.straight = self._store(None, 60_000)
        self.broken = self._store(self.proxy, 30_000)
        self.hasty = self._store(self.proxy, 2_000)

    def _store(self, proxy: Proxy | None, timeout_ms: int) -> ColdStore:
        if self._kind == "s3":
            return cold_servers.s3_store(
                prefix=self._place,
                address=None if proxy is None else proxy.address,
                timeout_ms=timeout_ms,
            )
        store = cold_servers.hdfs_store(root=f"/{self._place}", timeout_ms=timeout_ms)
        if proxy is not None:  # the NameNode says where the bytes go; we go there another way
            nodes = f"http://{cold_servers.hdfs().data_address()}"
            client: Any = store._client
            client._session.mount(nodes, _Elsewhere(proxy.address))
        return store


_NUMBERS = count()


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[Way]:
    way = Way(kind)
    try:
        yield way
    finally:
        way.proxy.heal()
        await way.broken.close()
        await way.hasty.close()
        await way.straight.close()
        way.proxy.remove()


REAL = [
    pytest.param("s3", marks=pytest.mark.needs_server("s3")),
    pytest.param("hdfs", marks=pytest.mark.needs_server("hdfs")),
]


def on_real_stores(test: Callable[[Way], Awaitable[None]]) -> Callable[[str], None]:
    """Runs the test on S3 and on HDFS."""

    @pytest.mark.needs_server("toxiproxy")
    @pytest.mark.parametrize("kind", REAL)
    def run(kind: str) -> None:
        async def main() -> None:
            async with opened(kind) as way:
                await test(way)

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


async def is_whole(store: ColdStore, key: str, data: bytes = DATA) -> bool:
    """Whether the object is there. It must not be there in part."""
    try:
        assert await store.get(key) == data
    except NoSuchObjectError:
        assert key not in await store.list()
        return False
    return True


@on_real_stores
async def test_an_upload_that_is_cut_leaves_the_whole_object_or_nothing(way: Way) -> None:
    outcomes = set()
    for number, size in enumerate((0, 100, 5_000, 300_000, 1_040_000)):
        way.proxy.cut_after(size, "upstream")
        with pytest.raises(UnknownOutcomeError):
            await way.hasty.put_if_absent(f"cut/{number}", DATA)
        way.proxy.heal()
        outcomes.add(await is_whole(way.straight, f"cut/{number}"))
        await way.straight.put_if_absent(f"cut/{number}", DATA)  # a repeat makes it whole
        assert await is_whole(way.straight, f"cut/{number}")
    assert False in outcomes


@on_real_stores
async def test_an_upload_without_an_answer_may_be_repeated(way: Way) -> None:
    """A duplicate upload: the first one arrived, its answer did not."""
    way.proxy.swallow("downstream")
    with pytest.raises(UnknownOutcomeError):
        await way.hasty.put_if_absent("twice/key", DATA)
    way.proxy.heal()
    await is_whole(way.straight, "twice/key")
    await way.straight.put_if_absent("twice/key", DATA)
    assert not await way.straight.put_if_absent("twice/key", b"other")
    assert await is_whole(way.straight, "twice/key")


@on_real_stores
async def test_slow_is_not_wrong_and_too_slow_says_so(way: Way) -> None:
    way.proxy.latency(150)
    assert await way.broken.put_if_absent("slow/key", DATA)
    assert await way.broken.get("slow/key", 1000, 50) == DATA[1000:1050]
    way.proxy.heal()
    way.proxy.latency(5_000)
    with pytest.raises(UnknownOutcomeError):
        await way.hasty.put_if_absent("slow/other", DATA)
    with pytest.raises(UnavailableError):
        await way.hasty.get("slow/key")


@on_real_stores
async def test_a_read_that_is_cut_is_an_error_and_never_short(way: Way) -> None:
    await way.straight.put_if_absent("read/key", DATA)
    for size in (0, 200, 100_000, 1_000_000):
        way.proxy.cut_after(size, "downstream")
        with pytest.raises(UnavailableError):
            await way.broken.get("read/key")
        way.proxy.heal()
    assert await way.broken.get("read/key") == DATA


# --- full, refused ------------------------------------------------------------------------------


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """The kernel lets this process write no larger file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_full_disk_is_said_so_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        store = LocalColdStore(tmp_path)
        with small_files(100_000), pytest.raises(DiskFullError):
            await store.put_if_absent("full/key", DATA)
        assert not await is_whole(store, "full/key")
        assert not await asyncio.to_thread(files_below, tmp_path)
        assert await store.put_if_absent("full/key", DATA)
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EACCES, UnauthorizedError), (errno.EDQUOT, DiskFullError)]
)
def test_what_a_file_system_refuses_is_typed(
    number: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "refused")

    async def main() -> None:
        store = LocalColdStore(tmp_path)
        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(kind):
            await store.put_if_absent("refused/key", DATA)
        assert not await is_whole(store, "refused/key")
        await store.close()

    asyncio.run(main())


@pytest.mark.needs_server("hdfs")
def test_hdfs_without_space_or_permission_says_so() -> None:
    hdfs = cold_servers.hdfs()
    hdfs.limit_space("/full", 1 << 20)  # less than a block

    async def main() -> None:
        full = cold_servers.hdfs_store(root="/full")
        with pytest.raises(DiskFullError):
            await full.put_if_absent("key", DATA)
        assert not await is_whole(full, "key")
        await full.close()
        owner = cold_servers.hdfs_store(root="/owned")
        await owner.put_if_absent("key", DATA)
        stranger = HdfsColdStore(HdfsOptions(f"http://{hdfs.address}", "/owned", user="stranger"))
        assert await stranger.get("key") == DATA, "everybody may read it"
        for refused in (stranger.put_if_absent("other", DATA), stranger.delete("key")):
            with pytest.raises(UnauthorizedError):
                await refused
        assert await owner.list() == ["key"]
        await stranger.close()
        await owner.close()

    asyncio.run(main())


# --- late listings ------------------------------------------------------------------------------


class StaleListing:
    """A store whose listings are those of an earlier time."""

    def __init__(self, store: ColdStore) -> None:
        self._store = store
        self._listed: list[str] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all but list
        return getattr(self._store, name)

    async def freeze(self) -> None:
        """From now on listings do not change."""
        self._listed = await self._store.list()

    async def list(self, prefix: str = "") -> list[str]:
        if self._listed is None:
            return await self._store.list(prefix)
        return [key for key in self._listed if not prefix or key.startswith(f"{prefix}/")]


def manifest(lssn: int, previous: str) -> Manifest:
    part = Part("part-0-00000.parquet", 0, 9, 1, 9, 10, 10, 10, "00")
    return Manifest(
        "ns", "s", "id", lssn, 9, 10, 10, 1, 9, 10 * (lssn - 1), 1, 2, False, f"d{lssn}", previous,
        (part,),
    )  # fmt: skip


@pytest.mark.needs_server("s3")
def test_a_late_listing_neither_hides_what_is_known_nor_shows_what_is_gone() -> None:
    async def main() -> None:
        store = cold_servers.s3_store()
        listed: Any = StaleListing(store)
        index = StreamIndex(listed, "ns", "s")

        async def put(lssn: int) -> None:
            one = manifest(lssn, f"d{lssn - 1}")
            await store.put_if_absent(f"ns/s/lssn={lssn:019d}/manifest.json", one.encode())

        await put(1)
        await put(2)
        await index.refresh()
        assert list(index.manifests) == [1, 2]
        await put(3)
        await index.refresh()
        listed._listed = [
            key for key in await store.list() if "lssn=0000000000000000002" not in key
        ]
        await index.refresh()
        assert list(index.manifests) == [1, 2, 3], "one that the listing forgot is there"
        fresh = StreamIndex(listed, "ns", "s")
        await fresh.refresh()
        assert list(fresh.manifests) == [1, 2, 3], "also for who never saw it"
        await listed.freeze()
        await store.delete("ns/s/lssn=0000000000000000001/manifest.json")
        await index.refresh()
        assert await read_manifest(store, "ns", "s", 1) is None
        assert index.first().lssn in (1, 2), "what was read before may be known a while"
        fresh = StreamIndex(listed, "ns", "s")
        await fresh.refresh()
        assert list(fresh.manifests) == [2, 3], "what is gone is not believed"
        await store.close()

    asyncio.run(main())
