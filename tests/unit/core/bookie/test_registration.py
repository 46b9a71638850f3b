"""A delayed registration request does not change the registration of a bookie afterwards."""

import asyncio
from random import Random

import pytest

from rhumbline.backends.memory import MemorySession, MemoryStore
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.registration import RegistrationKeeper
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.runtime.metadata_store import Session
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import LATE, LOST_REQUEST, LossyStore
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)

ME = BookieId("me@0000c0de")


async def registered(directory: BookieDirectory) -> tuple[list[BookieId], list[BookieId]]:
    return await directory.writable(), await directory.read_only()


async def wait_until_registered(
    directory: BookieDirectory, wanted: tuple[list[BookieId], list[BookieId]]
) -> None:
    async with asyncio.timeout(60):
        while await registered(directory) != wanted:  # noqa: ASYNC110 - as an observer would
            await asyncio.sleep(0.1)
    await asyncio.sleep(1)


async def joined_with_delayed_request(
    tasks: Tasks,
) -> tuple[LossyStore, BookieDirectory, RegistrationKeeper]:
    """Return a bookie that has registered, while its first request is still delayed."""
    store = LossyStore(MemoryStore())
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    membership = RegistrationKeeper(
        directory, BookieConfig(), Registration(ME, "h", 1, {}), tasks, Random(1)
    )
    store.outcomes = [LATE]
    await membership.join(read_only=False)
    return store, directory, membership


async def test_delayed_registration_does_not_restore_an_old_mode() -> None:
    tasks = Tasks()
    store, directory, membership = await joined_with_delayed_request(tasks)
    assert await registered(directory) == ([ME], [])
    membership.set_read_only(True)
    await wait_until_registered(directory, ([], [ME]))
    await store.deliver()
    assert await registered(directory) == ([], [ME])
    store.outcomes = [LATE]
    membership.set_read_only(False)
    await wait_until_registered(directory, ([ME], []))
    membership.set_read_only(True)
    await wait_until_registered(directory, ([], [ME]))
    await store.deliver()
    assert await registered(directory) == ([], [ME])
    await membership.leave()
    await tasks.aclose()
    assert await registered(directory) == ([], [])


async def test_delayed_registration_of_a_closed_session_has_no_effect() -> None:
    tasks = Tasks()
    store, directory, membership = await joined_with_delayed_request(tasks)
    await membership.leave()
    await tasks.aclose()
    await store.deliver()
    assert await registered(directory) == ([], [])


async def keeper(
    tasks: Tasks, *, read_only: bool = False
) -> tuple[MemoryStore, BookieDirectory, RegistrationKeeper]:
    store = MemoryStore()
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    found = RegistrationKeeper(
        directory,
        BookieConfig(registration_retry_ms=700),
        Registration(ME, "h", 1, {}),
        tasks,
        Random(1),
    )
    assert (found.is_registered, found.lost_count) == (False, 0)
    await found.join(read_only=read_only)
    assert found.is_registered
    return store, directory, found


@pytest.mark.parametrize("read_only", [False, True])
async def test_bookie_is_registered_in_its_mode_until_it_leaves(read_only: bool) -> None:
    tasks = Tasks()
    _, directory, membership = await keeper(tasks, read_only=read_only)
    expected: tuple[list[BookieId], list[BookieId]] = ([], [ME]) if read_only else ([ME], [])
    assert await registered(directory) == expected
    membership.set_read_only(read_only)
    await asyncio.sleep(5)
    assert await registered(directory) == expected
    await membership.leave()
    assert not membership.is_registered
    assert await registered(directory) == ([], [])
    await membership.leave()
    membership.set_read_only(not read_only)
    await asyncio.sleep(5)
    assert await registered(directory) == ([], []), "it does not come back"
    await tasks.aclose()


async def test_registration_returns_after_the_store_was_unavailable() -> None:
    tasks = Tasks()
    store, directory, membership = await keeper(tasks)
    store.disconnect()
    membership.set_read_only(True)
    await asyncio.sleep(3)
    store.reconnect()
    await wait_until_registered(directory, ([], [ME]))
    assert membership.is_registered
    await membership.leave()
    await tasks.aclose()


async def test_leaving_without_the_store_is_no_error() -> None:
    tasks = Tasks()
    store, _, membership = await keeper(tasks)
    store.disconnect()
    await membership.leave()
    assert not membership.is_registered
    await tasks.aclose()


class Sessions:
    """The sessions that a directory opens, with their time to live."""

    def __init__(self, directory: BookieDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[Session] = []
        self.ttls_ms: list[int] = []
        self.closed: list[Session] = []
        session = BookieDirectory.session

        async def open_session(directory: BookieDirectory, ttl_ms: int) -> Session:
            found = await session(directory, ttl_ms)
            self.opened.append(found)
            self.ttls_ms.append(ttl_ms)
            close = found.close

            async def note_and_close() -> None:
                self.closed.append(found)
                await close()

            monkeypatch.setattr(found, "close", note_and_close)
            return found

        monkeypatch.setattr(BookieDirectory, "session", open_session)


async def test_session_of_a_failed_registration_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would keep a registration that nobody renews, or removes, until it expires."""
    tasks = Tasks()
    store = MemoryStore()
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    config = BookieConfig(session_ttl_ms=7_000, registration_retry_ms=700)
    membership = RegistrationKeeper(
        directory, config, Registration(ME, "h", 1, {}), tasks, Random(1)
    )
    sessions = Sessions(directory, monkeypatch)

    async def fail(*_: object, **__: object) -> None:
        raise MetadataUnavailableError("no session")

    with monkeypatch.context() as patch:
        patch.setattr(BookieDirectory, "register", fail)
        with pytest.raises(MetadataUnavailableError):
            await membership.join(read_only=False)
    assert sessions.closed == sessions.opened
    assert not membership.is_registered
    await membership.join(read_only=False)
    with monkeypatch.context() as patch, recorded_log() as log:
        patch.setattr(BookieDirectory, "set_read_only", fail)
        membership.set_read_only(True)
        await asyncio.sleep(2)
        assert len(sessions.opened) == 2 + 3, "one for each attempt"
        assert sessions.closed == [sessions.opened[0], *sessions.opened[2:]]
        assert log.events() == ["registration failed"], "one line, though it is retried"
        assert log.fields("registration failed")[0]["bookie"] == ME
        assert "dropped" not in log.fields("registration failed")[0]
    await asyncio.sleep(1)
    assert await registered(directory) == ([], [ME])
    assert sessions.closed[-1] is sessions.opened[1], "the one of the old mode is closed"
    assert len(sessions.closed) == len(sessions.opened) - 1
    assert set(sessions.ttls_ms) == {7_000}
    await membership.leave()
    assert sessions.closed[-1] is sessions.opened[-1]
    await tasks.aclose()


async def test_lost_session_is_counted_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = Tasks()
    store, directory, membership = await keeper(tasks)
    for count in (1, 2):
        session = membership._session
        assert isinstance(session, MemorySession)
        with recorded_log() as log:
            store.expire_session(session)
            await asyncio.sleep(1)
        assert log.events() == ["registration lost", "bookie registered"]
        assert (membership.lost_count, membership.is_registered) == (count, True)
        assert await registered(directory) == ([ME], [])
    await membership.leave()
    await tasks.aclose()


async def test_bookie_that_leaves_during_a_retry_is_not_registered_again() -> None:
    tasks = Tasks()
    store, directory, membership = await keeper(tasks)
    store.disconnect()
    membership.set_read_only(True)
    await asyncio.sleep(1)
    await membership.leave()
    store.reconnect()
    await asyncio.sleep(5)
    assert await registered(directory) == ([ME], []), "until the session expires"
    assert (membership.is_registered, membership._session) == (False, None)
    assert len(tasks) == 0, "the task has ended by itself"
    await tasks.aclose()


async def test_bookie_that_never_joined_leaves_nothing() -> None:
    tasks = Tasks()
    store = MemoryStore()
    directory = BookieDirectory(store)
    membership = RegistrationKeeper(
        directory, BookieConfig(), Registration(ME, "h", 1, {}), tasks, Random(1)
    )
    store.disconnect()
    await membership.leave()
    assert (membership.is_registered, membership.lost_count) == (False, 0)
    await tasks.aclose()


async def test_changed_free_space_is_published_again_and_kept_over_registrations() -> None:
    tasks = Tasks()
    store = LossyStore(MemoryStore())
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    config = BookieConfig(registration_retry_ms=700)
    keeper = RegistrationKeeper(
        directory, config, Registration(ME, "h", 1, {"rack": "r1"}), tasks, Random(1)
    )
    await keeper.join(read_only=False)

    async def published() -> tuple[int, str]:
        await asyncio.sleep(2)
        found = await BookieDirectory(store).registration(ME)
        return found.free_bytes, found.properties["rack"]

    assert await published() == (0, "r1")
    keeper.set_free_bytes(7_000)
    assert await published() == (7_000, "r1")
    with recorded_log() as log:
        store.outcomes = [LOST_REQUEST]
        keeper.set_free_bytes(6_000)
        assert await published() == (6_000, "r1"), "a failed attempt is repeated"
        assert log.events() == ["registration failed"]
    keeper.set_read_only(True)
    keeper.set_free_bytes(5_000)
    assert await published() == (5_000, "r1")
    assert await directory.read_only() == [ME]
    for is_in_limbo in (True, True, False):
        keeper.set_limbo(is_in_limbo)
        assert await published() == (5_000, "r1")
        assert (await BookieDirectory(store).registration(ME)).is_in_limbo == is_in_limbo
    await tasks.aclose()
