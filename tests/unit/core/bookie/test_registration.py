"""A registration whose request was lost lists no bookie where it does not belong by then."""

import asyncio
from random import Random

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.registration import RegistrationKeeper
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.core.wire.registration import Registration
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import LATE, UnsureStore

ME = BookieId("me@0000c0de")


async def listed(directory: BookieDirectory) -> tuple[list[BookieId], list[BookieId]]:
    return await directory.writable(), await directory.read_only()


async def changed(
    directory: BookieDirectory, wanted: tuple[list[BookieId], list[BookieId]]
) -> None:
    async with asyncio.timeout(60):
        while await listed(directory) != wanted:  # noqa: ASYNC110 - as an observer would
            await asyncio.sleep(0.1)
    await asyncio.sleep(1)


async def joined_late(tasks: Tasks) -> tuple[UnsureStore, BookieDirectory, RegistrationKeeper]:
    """A bookie that has joined, though its first request is still on its way."""
    store = UnsureStore(MemoryStore())
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    membership = RegistrationKeeper(directory, BookieConfig(), Registration(ME, "h", 1, {}), tasks)
    store.fates = [LATE]
    await membership.join(read_only=False)
    return store, directory, membership


def test_a_late_registration_lists_no_bookie_in_a_mode_that_it_has_left() -> None:
    async def main() -> None:
        tasks = Tasks()
        store, directory, membership = await joined_late(tasks)
        assert await listed(directory) == ([ME], [])
        membership.set_read_only(True)
        await changed(directory, ([], [ME]))
        await store.deliver()
        assert await listed(directory) == ([], [ME])
        store.fates = [LATE]
        membership.set_read_only(False)
        await changed(directory, ([ME], []))
        membership.set_read_only(True)
        await changed(directory, ([], [ME]))
        await store.deliver()
        assert await listed(directory) == ([], [ME])
        await membership.leave()
        await tasks.aclose()
        assert await listed(directory) == ([], [])

    run_jumping(main())


def test_a_late_registration_of_a_session_that_is_over_is_none() -> None:
    async def main() -> None:
        tasks = Tasks()
        store, directory, membership = await joined_late(tasks)
        await membership.leave()
        await tasks.aclose()
        await store.deliver()
        assert await listed(directory) == ([], [])

    run_jumping(main())
