"""Tests of the SQLite store: refused, damaged and locked files, and polling."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rhumbline.backends.migration_fence import FenceState
from rhumbline.backends.open_store import open_store, open_without_following
from rhumbline.backends.sqlite import poller, schema
from rhumbline.backends.sqlite.change_probe import SETTLED_MS
from rhumbline.backends.sqlite.database import Database, SqliteReader, SqliteWriter
from rhumbline.backends.sqlite.job_queue import JobQueue
from rhumbline.backends.sqlite.store import SqliteStore
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    MetadataUnavailableError,
    NoNodeError,
    RhumblineError,
    StoreFencedError,
)
from rhumbline.core.runtime.metadata_store import Create, MetadataStore, Value


def uri_of(path: Path) -> str:
    return f"sqlite://{path}"


def use(path: Path, body: Callable[[MetadataStore], Awaitable[object]]) -> object:
    async def run() -> object:
        store = await open_without_following(uri_of(path), timeout_ms=1500)
        try:
            return await body(store)
        finally:
            await store.close()

    return asyncio.run(run())


def refusal(uri: str) -> RhumblineError:
    with pytest.raises(RhumblineError) as caught:
        asyncio.run(open_store(uri, timeout_ms=1500))
    assert "\n" not in str(caught.value)
    return caught.value


def filled(path: Path, count: int = 50) -> None:
    async def fill(store: MetadataStore) -> None:
        for number in range(count):
            await store.create(f"/n/{number:04d}", bytes(500))

    use(path, fill)


def test_nodes_survive_a_restart_and_versions_stay_unique(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    version = use(path, lambda store: store.create("/a", b"x"))
    value = use(path, lambda store: store.get("/a"))
    assert isinstance(version, tuple) and isinstance(value, tuple)
    assert value == (b"x", version[1])
    assert use(path, lambda store: store.put("/a", b"x")) != version[1]


def test_paths_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    assert isinstance(refusal(uri_of(tmp_path)), ConfigurationError)
    assert isinstance(refusal(uri_of(tmp_path / "no" / "m.db")), ConfigurationError)
    assert isinstance(refusal("sqlite:relative.db"), ConfigurationError)
    assert isinstance(refusal("sqlite://host/m.db"), ConfigurationError)
    assert isinstance(refusal(uri_of(tmp_path / "m.db") + "?adopt=no"), ConfigurationError)


def test_a_file_that_is_not_a_database_is_foreign(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(b"hello, this is a text file\n" * 100)
    error = refusal(uri_of(path))
    assert isinstance(error, ForeignDataError) and "is not a SQLite database" in str(error)
    assert path.read_bytes().startswith(b"hello")


def test_another_applications_database_is_foreign_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert "another application" in str(refusal(uri_of(path)))
    other = sqlite3.connect(path)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    other.execute("PRAGMA application_id = 77")
    other.close()
    assert isinstance(refusal(uri_of(path)), ForeignDataError)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    filled(path, 1)
    changed = sqlite3.connect(path)
    changed.execute("PRAGMA user_version = 99")
    changed.close()
    assert "format 99" in str(refusal(uri_of(path)))


@pytest.mark.parametrize("damage", ["zeroes", "truncated", "table"])
def test_a_damaged_file_is_corrupt(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.db"
    filled(path)
    data = path.read_bytes()
    match damage:
        case "zeroes":
            path.write_bytes(data[:4096] + bytes(len(data) - 4096))
        case "truncated":
            path.write_bytes(data[: len(data) // 4096 // 2 * 4096])
        case _:
            changed = sqlite3.connect(path)
            changed.execute("DROP TABLE fact")
            changed.close()
    error = refusal(uri_of(path))
    assert isinstance(error, CorruptionError), error
    assert "damaged" in str(error)


def test_another_host_is_refused_until_it_adopts_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.db"
    filled(path, 1)
    boot, machine = schema.host_identity()
    monkeypatch.setattr(schema, "host_identity", lambda: ("rebooted", machine))
    use(path, lambda store: store.get("/n/0000"))
    monkeypatch.setattr(schema, "host_identity", lambda: ("rebooted", "a container's name"))
    use(path, lambda store: store.get("/n/0000"))
    monkeypatch.setattr(schema, "host_identity", lambda: ("elsewhere", "other-machine"))
    error = refusal(uri_of(path))
    assert isinstance(error, ForeignDataError)
    assert "this is 'other-machine'" in str(error) and "adopt=yes" in str(error)
    use_adopted = asyncio.run(open_and_close(uri_of(path) + "?adopt=yes"))
    assert use_adopted == uri_of(path)
    use(path, lambda store: store.get("/n/0000"))
    monkeypatch.setattr(schema, "host_identity", lambda: (boot, machine))
    assert isinstance(refusal(uri_of(path)), ForeignDataError)


async def open_and_close(uri: str) -> str:
    store = await open_store(uri)
    await store.close()
    return store.uri


def test_a_write_to_a_locked_file_raises_unavailable_at_its_deadline(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    filled(path, 1)

    async def body(store: MetadataStore) -> None:
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        loop = asyncio.get_running_loop()
        started = loop.time()
        doomed = [asyncio.create_task(store.put("/n/0000", b"late")) for _ in range(3)]
        for task in doomed:
            with pytest.raises(MetadataUnavailableError):
                await task
        assert loop.time() - started < 3
        assert (await store.get("/n/0000")).data == bytes(500), "reads continue"
        blocker.execute("ROLLBACK")
        blocker.close()
        await store.put("/n/0000", b"now")

    use(path, body)


async def test_jobs_of_one_group_keep_their_own_deadlines(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    began = time.monotonic()
    database = Database(path, adopt=False, deadline=began + 5)
    blocker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(time.sleep, 0.1)  # both are queued before the thread is free
        queue = JobQueue(database, thread)
        hasty = queue.write(lambda _: "hasty", began + 0.4)
        patient = queue.write(lambda _: "patient", began + 120)
        with pytest.raises(MetadataUnavailableError):
            await hasty.answer
        assert not patient.answer.done(), "the hasty write failed at the deadline of the other"
        blocker.execute("ROLLBACK")
        assert await patient.answer == "patient"
    blocker.close()
    database.close()


async def test_reads_that_wait_together_share_a_snapshot_and_keep_their_own_errors(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    deadline = time.monotonic() + 60
    database = Database(path, adopt=False, deadline=deadline)
    readers: list[SqliteReader] = []

    def missing(reader: SqliteReader) -> Value:
        readers.append(reader)
        return reader.value("/missing", stale_ok=False)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(time.sleep, 0.1)
        queue = JobQueue(database, thread)
        failing = queue.read(missing, deadline)
        good = queue.read(readers.append, deadline)
        withdrawn = queue.read(readers.append, deadline)
        queue.withdraw(withdrawn)
        with pytest.raises(NoNodeError):
            await failing.answer
        await good.answer
        assert withdrawn.is_withdrawn and not withdrawn.answer.done()
        broken = queue.read(lambda _: 1 // 0, deadline)
        fine = queue.read(lambda _: "fine", deadline)
        with pytest.raises(ZeroDivisionError):
            await broken.answer
        assert await fine.answer == "fine"
    assert len(readers) == 2 and readers[0] is readers[1]
    database.close()


def create_node(writer: SqliteWriter) -> str:
    plan = writer.plan()
    plan.create("/n", b"")
    return writer.commit(plan)


def close_fence(writer: SqliteWriter) -> bool:
    return writer.swap_fence(writer.fence, replace(writer.fence, successor="elsewhere"))


def test_writes_of_one_group_see_the_fence_that_one_of_them_closed(tmp_path: Path) -> None:
    deadline = time.monotonic() + 60
    database = Database(tmp_path / "m.db", adopt=False, deadline=deadline)
    first, closed, refused = database.write(
        [lambda writer: writer.fence, close_fence, create_node], deadline
    )
    assert isinstance(first, FenceState) and first.successor is None
    assert closed is True
    assert isinstance(refused, StoreFencedError)
    database.close()


def test_group_is_undone_if_a_body_raises_after_it_wrote(tmp_path: Path) -> None:
    """To undo that body alone takes a savepoint, which costs two statements for each write."""
    deadline = time.monotonic() + 60
    database = Database(tmp_path / "m.db", adopt=False, deadline=deadline)

    def write_and_raise(writer: SqliteWriter) -> None:
        assert close_fence(writer)
        raise MetadataUnavailableError("injected by the test")

    with pytest.raises(AssertionError, match="it wrote before it raised"):
        database.write([create_node, write_and_raise], deadline)
    fence, node = database.read([lambda reader: reader.fence, lambda r: r.node("/n")], deadline)
    assert isinstance(fence, FenceState) and fence.successor is None
    assert node is None
    database.close()


def test_looking_for_changes_does_not_read_the_change_log(tmp_path: Path) -> None:
    """Each process read the whole log, in 0.4 ms, whenever another process had written."""
    deadline = time.monotonic() + 60
    database = Database(tmp_path / "m.db", adopt=False, deadline=deadline)
    paths = [(f"/n/{number}",) for number in range(10_000)]
    connection = database._connection
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO change (path) VALUES (?)", paths)
    connection.execute("COMMIT")
    instructions = 0

    def count() -> None:
        nonlocal instructions
        instructions += 10

    connection.set_progress_handler(count, 10)
    found = database.read([lambda reader: reader.changes_after(9_999)], deadline)
    assert found == [(10_000, ["/n/9999"])]
    assert instructions < 200
    database.close()


def test_few_transactions_set_the_timeout_of_the_lock(tmp_path: Path) -> None:
    database = Database(tmp_path / "m.db", adopt=False, deadline=time.monotonic() + 60)
    statements: list[str] = []
    database._connection.set_trace_callback(statements.append)
    for _ in range(20):
        database.read([lambda _: None], time.monotonic() + 5.2)
    timeouts = [text for text in statements if "busy_timeout" in text]
    assert timeouts == ["PRAGMA busy_timeout = 5000"]
    database.read([lambda _: None], time.monotonic() + 0.1)
    assert 0 < int(next(t for t in reversed(statements) if "busy" in t).rpartition("=")[2]) <= 100
    database.close()


async def test_a_cancelled_write_that_has_not_begun_is_never_done(tmp_path: Path) -> None:
    """The queue used to keep what nobody waited for, so that a hanging disk let it grow."""
    store = await open_without_following(uri_of(tmp_path / "m.db"))
    assert isinstance(store, SqliteStore)
    store._thread.submit(time.sleep, 0.2)
    writes = [asyncio.create_task(store.create(f"/n/{number}")) for number in range(3)]
    await asyncio.sleep(0.05)
    writes[1].cancel()
    await asyncio.wait(writes)
    assert await store.children("/n") == ["0", "2"]
    await store.close()


def test_watches_fire_if_the_handle_is_behind_the_change_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhumbline.backends.sqlite.database.CHANGES_KEPT", 3)
    path = tmp_path / "m.db"

    async def body(store: MetadataStore) -> None:
        other = await open_store(uri_of(path))
        await other.create("/a")
        woken = asyncio.Event()
        store.watch("/a", woken.set)
        await asyncio.wait_for(woken.wait(), 5)
        await asyncio.sleep(0.1)
        woken.clear()
        await other.put("/a", b"x")
        await other.txn([Create(f"/b/{number}") for number in range(20)])
        await asyncio.wait_for(woken.wait(), 5)
        await other.close()

    use(path, body)


def test_a_file_without_watches_is_not_polled(tmp_path: Path) -> None:
    async def body(store: MetadataStore) -> None:
        assert isinstance(store, SqliteStore)
        assert not store.poller.is_running
        first, second = store.watch("/a", lambda: None), store.watch("/b", lambda: None)
        assert store.poller.is_running
        first.close()
        assert store.poller.is_running
        second.close()
        assert not store.poller.is_running

    use(tmp_path / "m.db", body)


def test_an_unchanged_file_is_queried_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change by another handle fires at once, also right after another change."""

    async def body(store: MetadataStore) -> None:
        assert isinstance(store, SqliteStore)
        checks = 0
        read_changes = store._changes_after

        async def counted(number: int) -> tuple[int, list[str] | None]:
            nonlocal checks
            checks += 1
            return await read_changes(number)

        store.poller._read_changes = counted
        woken = asyncio.Event()
        store.watch("/", woken.set, prefix=True)
        await asyncio.sleep(SETTLED_MS / 1000 + 0.1)
        before = checks
        await asyncio.sleep(1.5)
        assert checks - before <= 3
        monkeypatch.setattr(poller, "CHECK_INTERVAL_MS_MAX", 3_600_000)
        other = await open_without_following(store.uri)
        for number in range(40):
            await other.create("/n/x", sequential=True)
            woken.clear()
            await other.create(f"/m/{number}")
            await woken.wait()
            await asyncio.sleep(0.001 * (number % 25))
        await other.close()

    use(tmp_path / "m.db", body)
