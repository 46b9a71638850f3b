"""Faults of real cold stores: an object exists as a whole or not at all, and errors are typed.

Toxiproxy interrupts, repeats, delays or drops requests and responses. The servers themselves are
full or refuse requests. Stale listings are simulated in the test.
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

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder, part_name
from rhumbline.coldstore.archive.catalog import read_manifest
from rhumbline.coldstore.archive.manifest import Manifest, Part
from rhumbline.coldstore.archive.stream_index import StreamIndex
from rhumbline.coldstore.proof.chain_writer import ChainWriter
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
    """An adapter that sends all requests to another address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def send(self, request: Any, *args: Any, **given: Any) -> Any:  # noqa: ANN401
        _, _, path = request.url.removeprefix("http://").partition("/")
        request.url = f"http://{self._address}/{path}"
        return super().send(request, *args, **given)


class ProxiedStore:
    """One store, opened through a proxy with two deadlines, and directly."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._place = f"faults-{next(_NUMBERS)}"
        upstream = cold_servers.s3().address if kind == "s3" else cold_servers.hdfs().data_address()
        self.proxy: Proxy = metadata_servers.toxiproxy().proxy(upstream)
        self.direct = self._store(None, 60_000)
        self.broken = self._store(self.proxy, 30_000)
        self.impatient = self._store(self.proxy, 1_000)

    def _store(self, proxy: Proxy | None, timeout_ms: int) -> ColdStore:
        if self._kind == "s3":
            return cold_servers.s3_store(
                prefix=self._place,
                address=None if proxy is None else proxy.address,
                timeout_ms=timeout_ms,
            )
        store = cold_servers.hdfs_store(root=f"/{self._place}", timeout_ms=timeout_ms)
        if (
            proxy is not None
        ):  # the NameNode names the DataNode's address; go through the proxy instead
            nodes = f"http://{cold_servers.hdfs().data_address()}"
            client: Any = store._client
            client._session.mount(nodes, _Elsewhere(proxy.address))
        return store


_NUMBERS = count()


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[ProxiedStore]:
    proxied = ProxiedStore(kind)
    try:
        yield proxied
    finally:
        proxied.proxy.heal()
        await proxied.broken.close()
        await proxied.impatient.close()
        await proxied.direct.close()
        proxied.proxy.remove()


REAL = [
    pytest.param("s3", marks=pytest.mark.needs_server("s3")),
    pytest.param("hdfs", marks=pytest.mark.needs_server("hdfs")),
]


def on_real_stores(test: Callable[[ProxiedStore], Awaitable[None]]) -> Callable[[str], None]:
    """Run a test on S3 and on HDFS."""

    @pytest.mark.needs_server("toxiproxy")
    @pytest.mark.parametrize("kind", REAL)
    def run(kind: str) -> None:
        async def main() -> None:
            async with opened(kind) as proxied:
                await test(proxied)

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


async def is_whole(store: ColdStore, key: str, data: bytes = DATA) -> bool:
    """Return whether the object exists. It must not exist in part."""
    try:
        assert await store.get(key) == data
    except NoSuchObjectError:
        assert key not in await store.list()
        return False
    return True


@on_real_stores
async def test_an_interrupted_upload_leaves_the_whole_object_or_nothing(
    proxied: ProxiedStore,
) -> None:
    outcomes = set()
    for number, size in enumerate((0, 100, 5_000, 300_000, 1_040_000)):
        proxied.proxy.cut_after(size, "upstream")
        with pytest.raises(UnknownOutcomeError):
            await proxied.impatient.put_if_absent(f"cut/{number}", DATA)
        proxied.proxy.heal()
        outcomes.add(await is_whole(proxied.direct, f"cut/{number}"))
        await proxied.direct.put_if_absent(f"cut/{number}", DATA)  # a repeat completes it
        assert await is_whole(proxied.direct, f"cut/{number}")
    assert False in outcomes


@on_real_stores
async def test_an_upload_without_a_response_may_be_repeated(proxied: ProxiedStore) -> None:
    """The first upload arrives, but its response is lost; the second is a duplicate."""
    proxied.proxy.swallow("downstream")
    with pytest.raises(UnknownOutcomeError):
        await proxied.impatient.put_if_absent("twice/key", DATA)
    proxied.proxy.heal()
    await is_whole(proxied.direct, "twice/key")
    await proxied.direct.put_if_absent("twice/key", DATA)
    assert not await proxied.direct.put_if_absent("twice/key", b"other")
    assert await is_whole(proxied.direct, "twice/key")


@on_real_stores
async def test_a_slow_store_works_and_a_too_slow_one_times_out(proxied: ProxiedStore) -> None:
    proxied.proxy.latency(150)
    assert await proxied.broken.put_if_absent("slow/key", DATA)
    assert await proxied.broken.get("slow/key", 1000, 50) == DATA[1000:1050]
    proxied.proxy.heal()
    proxied.proxy.latency(3_000)
    with pytest.raises(UnknownOutcomeError):
        await proxied.impatient.put_if_absent("slow/other", DATA)
    with pytest.raises(UnavailableError):
        await proxied.impatient.get("slow/key")


@on_real_stores
async def test_an_interrupted_read_raises_and_is_never_short(proxied: ProxiedStore) -> None:
    await proxied.direct.put_if_absent("read/key", DATA)
    for size in (0, 200, 100_000, 1_000_000):
        proxied.proxy.cut_after(size, "downstream")
        with pytest.raises(UnavailableError):
            await proxied.broken.get("read/key")
        proxied.proxy.heal()
    assert await proxied.broken.get("read/key") == DATA


@pytest.mark.needs_server("hdfs")
@pytest.mark.needs_server("toxiproxy")
async def test_lost_namenode_responses_leave_the_whole_object_or_nothing() -> None:
    """Responses of the NameNode are lost: for creating a file or a folder, or renaming."""
    proxy = metadata_servers.toxiproxy().proxy(cold_servers.hdfs().address)

    try:
        direct = cold_servers.hdfs_store(root="/names")
        outcomes = []
        for number, size in enumerate(range(0, 3_500, 500)):
            broken = cold_servers.hdfs_store(
                root="/names", address=proxy.address, timeout_ms=10_000
            )
            proxy.cut_after(size, "downstream")
            try:
                was_confirmed = await broken.put_if_absent(f"cut/{number}", DATA)
            except UnknownOutcomeError:
                was_confirmed = False
            proxy.heal()
            await broken.close()
            is_there = await is_whole(direct, f"cut/{number}")
            assert is_there or not was_confirmed
            outcomes.append((was_confirmed, is_there))
            await direct.put_if_absent(f"cut/{number}", DATA)  # a repeat completes it
            assert await is_whole(direct, f"cut/{number}")
        assert {(False, False), (True, True)} <= set(outcomes), outcomes
        await direct.close()
    finally:
        proxy.remove()


# --- slow, broken, full, refused ----------------------------------------------------------------


async def test_a_hung_disk_is_unavailable_and_the_outcome_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that waits for the disk cannot be stopped: its write completes later, whole."""
    may_continue = threading.Event()
    sync, opened = os.fsync, Path.open

    def slow_sync(descriptor: int) -> None:
        may_continue.wait(30)
        sync(descriptor)

    def slow_open(path: Path, mode: str = "r") -> Any:  # noqa: ANN401 - a file
        if mode == "rb":
            may_continue.wait(30)
        return opened(path, mode)

    store = LocalColdStore(tmp_path, timeout_ms=100)
    patient = LocalColdStore(tmp_path)
    monkeypatch.setattr(os, "fsync", slow_sync)
    monkeypatch.setattr(Path, "open", slow_open)
    with pytest.raises(UnknownOutcomeError):
        await store.put_if_absent("slow/key", DATA)
    assert await patient.list() == []
    with pytest.raises(UnavailableError):
        await store.get("slow/key")
    may_continue.set()
    await patient.put_if_absent("slow/key", DATA)
    assert await is_whole(patient, "slow/key")
    await store.close()
    await patient.close()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Make the kernel limit the size of the files that this process writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_full_disk_raises_and_leaves_nothing(tmp_path: Path) -> None:
    store = LocalColdStore(tmp_path)
    with file_size_limit(100_000), pytest.raises(DiskFullError):
        await store.put_if_absent("full/key", DATA)
    assert not await is_whole(store, "full/key")
    assert not await asyncio.to_thread(files_below, tmp_path)
    assert await store.put_if_absent("full/key", DATA)
    await store.close()


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
async def test_file_system_errors_are_typed_and_leave_nothing(
    step: str,
    number: int,
    kind: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error occurs when the bytes are synced, or when the file is linked to its name."""

    def refuse(*_: object) -> None:
        raise OSError(number, "refused")

    store = LocalColdStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, refuse)
        with pytest.raises(kind):
            await store.put_if_absent("refused/key", DATA)
    assert not await is_whole(store, "refused/key")
    assert not await asyncio.to_thread(files_below, tmp_path)
    assert await store.put_if_absent("refused/key", DATA)
    await store.close()


class RefusingS3(BaseHTTPRequestHandler):
    """An empty S3 endpoint that responds to each PUT with ``refusal``: (status, code)."""

    protocol_version = "HTTP/1.1"
    refusal = (507, "InsufficientStorage")

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, code = self.refusal
        self._respond(status, code)

    def do_GET(self) -> None:
        self._respond(404, "NoSuchKey")

    def _respond(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>for a test</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


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
async def test_s3_errors_are_typed(status: int, code: str, kind: type[Exception]) -> None:
    handler = type("Handler", (RefusingS3,), {"refusal": (status, code)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            store = cold_servers.s3_store(address=f"127.0.0.1:{server.server_port}")
            with pytest.raises(kind, match=code):
                await store.put_if_absent("refused/key", DATA)
            with pytest.raises(NoSuchObjectError):
                await store.get("refused/key")
            await store.close()
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.needs_server("s3")
async def test_s3_without_permission_raises_unauthorized() -> None:
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


@pytest.mark.needs_server("hdfs")
async def test_hdfs_errors_are_typed() -> None:
    hdfs = cold_servers.hdfs()
    hdfs.limit_space("/full", 1 << 20)  # less than a block
    full = cold_servers.hdfs_store(root="/full")
    with pytest.raises(DiskFullError):
        await full.put_if_absent("key", DATA)
    assert not await is_whole(full, "key")
    await full.close()
    owner = cold_servers.hdfs_store(root="/owned")
    await owner.put_if_absent("key", DATA)
    stranger = HdfsColdStore(HdfsOptions(f"http://{hdfs.address}", "/owned", user="stranger"))
    assert await stranger.get("key") == DATA, "every user may read it"
    for refused in (stranger.put_if_absent("other", DATA), stranger.delete("key")):
        with pytest.raises(UnauthorizedError):
            await refused
    assert await owner.list() == ["key"]
    await stranger.close()
    await owner.close()


# --- stale listings -----------------------------------------------------------------------------


class StaleListing:
    """A store whose listings can be frozen, and are stale from then on."""

    def __init__(self, store: ColdStore) -> None:
        self._store = store
        self._listed: list[str] | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - all but list
        return getattr(self._store, name)

    async def freeze(self) -> None:
        """Return the current listing from now on."""
        self._listed = await self._store.list()

    async def list(self, prefix: str = "") -> list[str]:
        if self._listed is None:
            return await self._store.list(prefix)
        return [key for key in self._listed if not prefix or key.startswith(f"{prefix}/")]


FOLDER = ArchiveFolder("ns", "s", "id")


def manifest(lssn: int, previous: str) -> Manifest:
    part = Part(part_name(lssn, 0, "0" * 16), 0, 9, 1, 9, 10, 10, 10, "00", "00")
    return Manifest(
        "ns", "s", "id", lssn, 9, 10, 10, 1, 9, 10 * (lssn - 1), 1, 2, False, f"d{lssn}", previous,
        (part,),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["local", *REAL])
async def test_a_stale_listing_hides_no_known_object_and_shows_no_deleted_one(
    kind: str, tmp_path: Path
) -> None:
    store: ColdStore = LocalColdStore(tmp_path)
    if kind != "local":
        store = cold_servers.s3_store() if kind == "s3" else cold_servers.hdfs_store()
    listed: Any = StaleListing(store)
    index = StreamIndex(listed, "ns", "s")

    chain = ChainWriter(store)

    async def put(lssn: int) -> None:
        link = await chain.previous_link(FOLDER, lssn, oldest_lssn=1)
        await chain.cover(await chain.publish(manifest(lssn, link), link))

    await put(1)
    await put(2)
    await index.refresh()
    assert list(index.manifests) == [1, 2]
    await put(3)
    await index.refresh()
    listed._listed = [key for key in await store.list() if "-0000000000000000002" not in key]
    await index.refresh()
    assert list(index.manifests) == [1, 2, 3], (
        "a known segment is kept although the listing lacks it"
    )
    fresh = StreamIndex(listed, "ns", "s")
    await fresh.refresh()
    assert list(fresh.manifests) == [1, 2, 3], "a new index finds it too"
    await listed.freeze()
    await store.delete(FOLDER.manifest(1))
    await index.refresh()
    assert await read_manifest(store, FOLDER, 1) is None
    assert index.first().lssn in (1, 2), "what was read before may be kept for a while"
    fresh = StreamIndex(listed, "ns", "s")
    await fresh.refresh()
    assert list(fresh.manifests) == [2, 3], "a deleted segment is dropped although it is listed"
    await store.close()
