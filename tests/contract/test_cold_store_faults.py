"""Real cold stores through broken ways: an object is there whole or not at all, and errors say so.

Uploads that are cut, repeated, slow or unanswered go through Toxiproxy; stores that are full or
refuse are the servers' own doing; listings that are late are made late on the way to us.
"""

import asyncio
import errno
import os
import resource
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from requests.adapters import HTTPAdapter

from rhumbline.coldstore.archive.catalog import read_manifest
from rhumbline.coldstore.archive.manifest import Manifest, Part
from rhumbline.coldstore.archive.stream_index import StreamIndex
from rhumbline.coldstore.stores.hdfs import HdfsColdStore, HdfsOptions
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.errors import (
    CorruptionError,
    DiskFullError,
    NoSuchObjectError,
    UnauthorizedError,
    UnavailableError,
    UnknownOutcomeError,
)
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.tests.support.servers import cold_servers, metadata_servers
from rhumbline.tests.support.servers.metadata_servers import Proxy

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
        self.proxy: Proxy = metadata_servers.toxiproxy().proxy(upstream)
        self.straight = self._store(None, 60_000)
        self.broken = self._store(self.proxy, 30_000)
        self.hasty = self._store(self.proxy, 1_000)

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
    way.proxy.latency(3_000)
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


@pytest.mark.needs_server("hdfs")
@pytest.mark.needs_server("toxiproxy")
def test_hdfs_whose_names_are_cut_has_the_whole_object_or_nothing() -> None:
    """The NameNode's answers are lost: to the making of the file, of its folder, to the rename."""
    proxy = metadata_servers.toxiproxy().proxy(cold_servers.hdfs().address)

    async def main() -> None:
        straight = cold_servers.hdfs_store(root="/names")
        outcomes = []
        for number, size in enumerate(range(0, 3_500, 500)):
            broken = cold_servers.hdfs_store(
                root="/names", address=proxy.address, timeout_ms=10_000
            )
            proxy.cut_after(size, "downstream")
            try:
                is_said = await broken.put_if_absent(f"cut/{number}", DATA)
            except UnknownOutcomeError:
                is_said = False
            proxy.heal()
            await broken.close()
            is_there = await is_whole(straight, f"cut/{number}")
            assert is_there or not is_said
            outcomes.append((is_said, is_there))
            await straight.put_if_absent(f"cut/{number}", DATA)  # a repeat makes it whole
            assert await is_whole(straight, f"cut/{number}")
        assert {(False, False), (True, True)} <= set(outcomes), outcomes
        await straight.close()

    try:
        asyncio.run(main())
    finally:
        proxy.remove()


# --- slow, broken, full, refused ----------------------------------------------------------------


def test_a_disk_that_hangs_is_unavailable_and_the_outcome_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waits for the disk cannot be ended: what it does comes later, and whole."""
    goes_on = threading.Event()
    sync, opened = os.fsync, Path.open

    def slow_sync(descriptor: int) -> None:
        goes_on.wait(30)
        sync(descriptor)

    def slow_open(path: Path, mode: str = "r") -> Any:  # noqa: ANN401 - a file
        if mode == "rb":
            goes_on.wait(30)
        return opened(path, mode)

    async def main() -> None:
        store = LocalColdStore(tmp_path, timeout_ms=100)
        patient = LocalColdStore(tmp_path)
        monkeypatch.setattr(os, "fsync", slow_sync)
        monkeypatch.setattr(Path, "open", slow_open)
        with pytest.raises(UnknownOutcomeError):
            await store.put_if_absent("slow/key", DATA)
        assert await patient.list() == []
        with pytest.raises(UnavailableError):
            await store.get("slow/key")
        goes_on.set()
        await patient.put_if_absent("slow/key", DATA)
        assert await is_whole(patient, "slow/key")
        await store.close()
        await patient.close()

    asyncio.run(main())


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


@pytest.mark.parametrize("step", ["fsync", "link"])
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EACCES, UnauthorizedError),
        (errno.EIO, CorruptionError),
    ],
)
def test_what_a_file_system_refuses_is_typed_and_leaves_nothing(
    step: str,
    number: int,
    kind: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the bytes are written, and when they get their name."""

    def refuse(*_: object) -> None:
        raise OSError(number, "refused")

    async def main() -> None:
        store = LocalColdStore(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(os, step, refuse)
            with pytest.raises(kind):
                await store.put_if_absent("refused/key", DATA)
        assert not await is_whole(store, "refused/key")
        assert not await asyncio.to_thread(files_below, tmp_path)
        assert await store.put_if_absent("refused/key", DATA)
        await store.close()

    asyncio.run(main())


class RefusingS3(BaseHTTPRequestHandler):
    """An S3 endpoint that is empty and answers each PUT with ``said``: (status, code)."""

    protocol_version = "HTTP/1.1"
    said = (507, "InsufficientStorage")

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, code = self.said
        self._answer(status, code)

    def do_GET(self) -> None:
        self._answer(404, "NoSuchKey")

    def _answer(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>for a test</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not to the test's output."""


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (507, "InsufficientStorage", DiskFullError),
        (507, "XMinioStorageFull", DiskFullError),
        (403, "QuotaExceeded", DiskFullError),
        (400, "XMinioAdminBucketQuotaExceeded", DiskFullError),
        (403, "AccessDenied", UnauthorizedError),
        (503, "SlowDown", UnknownOutcomeError),
        (500, "InternalError", UnknownOutcomeError),
    ],
)
def test_what_an_s3_refuses_is_typed(status: int, code: str, kind: type[Exception]) -> None:
    handler = type("Handler", (RefusingS3,), {"said": (status, code)})

    async def main(port: int) -> None:
        store = cold_servers.s3_store(address=f"127.0.0.1:{port}")
        with pytest.raises(kind, match=code):
            await store.put_if_absent("refused/key", DATA)
        with pytest.raises(NoSuchObjectError):
            await store.get("refused/key")
        await store.close()

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            asyncio.run(main(server.server_port))
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.needs_server("s3")
def test_s3_without_permission_says_so() -> None:
    async def main() -> None:
        owner = cold_servers.s3_store(prefix="owned")
        await owner.put_if_absent("key", DATA)
        stranger = cold_servers.s3_store(prefix="owned", access_key=cold_servers.S3.stranger)
        for refused in (
            stranger.put_if_absent("other", DATA), stranger.get("key"), stranger.stat("key"),
            stranger.list(), stranger.delete("key"),
        ):  # fmt: skip
            with pytest.raises(UnauthorizedError):
                await refused
        assert await owner.list() == ["key"]
        await stranger.close()
        await owner.close()

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


@pytest.mark.parametrize("kind", ["local", *REAL])
def test_a_late_listing_neither_hides_what_is_known_nor_shows_what_is_gone(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> None:
        store: ColdStore = LocalColdStore(tmp_path)
        if kind != "local":
            store = cold_servers.s3_store() if kind == "s3" else cold_servers.hdfs_store()
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
