"""The metadata store ``sqlite:///path`` in one SQLite file.

The option ``adopt=yes`` takes over a file that was moved from another host. The event loop never
waits for the disk: each handle uses SQLite only in a thread of its own.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from ...core.protocol.errors import IndeterminateError, MetadataUnavailableError
from ...core.runtime.metadata_store import Operation, Session, Value, Version
from ..leases import Lease, Leases, LeaseSession, Owner
from ..migration_fence import FenceState
from ..store_base import StoreBase
from ..transaction_plan import Node, versions_of
from ..uri import StoreUri
from ..watches import Watches
from .database import Database, SqliteReader, SqliteWriter
from .job_queue import Job, JobQueue
from .poller import Poller

T = TypeVar("T")


async def open_sqlite(uri: StoreUri, timeout_ms: int) -> "SqliteStore":
    """Open the file, or create it. Raises as ``open_store``."""
    options = uri.check_options(("adopt",))
    path = Path(uri.path)
    if uri.authority or not path.is_absolute():
        raise uri.error("is not of the form sqlite:///absolute/path/of/a/file")
    if options.get("adopt", "yes") != "yes":
        raise uri.error(f"has adopt={options['adopt']!r}; the only value is yes")
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
    loop = asyncio.get_running_loop()
    opening = partial(
        Database,
        path,
        adopt="adopt" in options,
        deadline=time.monotonic() + timeout_ms / 1000,
    )
    try:
        database = await loop.run_in_executor(thread, opening)
    except BaseException:
        thread.shutdown(wait=False)
        raise
    return SqliteStore(path, database, thread, timeout_ms)


class SqliteStore(StoreBase):
    """A handle to the file, for one process."""

    def __init__(
        self, path: Path, database: Database, thread: ThreadPoolExecutor, timeout_ms: int
    ) -> None:
        super().__init__(f"sqlite://{path}", timeout_ms)
        self._database = database
        self._thread = thread
        self._jobs = JobQueue(database, thread)
        self.poller = Poller(path, self._changes_after, self._tasks)
        """Fires the watches; runs only while there are any."""
        self._watches = self.poller.watches = Watches(self._watches_changed)
        self._leases = Leases(self, lambda: Owner(os.urandom(8).hex()))
        self._leases.start()

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        return await self._read(lambda reader: reader.value(path, stale_ok=stale_ok))

    async def _get_all(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        def body(reader: SqliteReader) -> list[Value | None]:
            return [reader.value_if_exists(path, stale_ok=stale_ok) for path in paths]

        return await self._read(body)

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        return await self._read(
            lambda reader: reader.names_after(path, after, limit, stale_ok=stale_ok)
        )

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        owner = None if ephemeral is None else self._leases.own_session(ephemeral).owner

        def body(writer: SqliteWriter) -> tuple[str, Version]:
            if owner is not None:
                writer.check_lease(owner)
            plan = writer.plan()
            created = plan.create(path, data, owner, sequential=sequential)
            return created, writer.commit(plan)

        return await self._write(body)

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        def body(writer: SqliteWriter) -> list[Version | None]:
            plan = writer.plan()
            for operation in operations:
                plan.apply(operation)
            return versions_of(operations, writer.commit(plan))

        return await self._write(body)

    async def session(self, ttl_ms: int) -> LeaseSession:
        """Open a session that survives up to ``ttl_ms`` without contact."""
        return await self._leases.open(ttl_ms)

    async def _end_leases(self) -> None:
        await self._leases.aclose()

    async def _disconnect(self) -> None:
        self.poller.stop()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close)
        self._thread.shutdown(wait=False)

    # --- lease rows (``LeaseRows``)

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Create the lease of a session."""
        await self._write(lambda writer: writer.add_lease(owner, ttl_ms))

    async def renew_lease(self, owner: Owner) -> bool:
        """Increment the counter; False if the lease no longer exists."""
        return await self._write(lambda writer: writer.renew_lease(owner))

    async def leases(self) -> dict[Owner, Lease]:
        """Return all leases."""
        return await self._read(lambda reader: reader.leases())

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Remove the lease and its nodes if the counter is still ``counter`` (None: any)."""
        await self._write(lambda writer: writer.end_lease(owner, counter))

    # --- migration (``MovableStore``)

    async def _read_fence(self, *, stale_ok: bool) -> FenceState:
        return await self._read(lambda reader: reader.fence)

    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool:
        return await self._write(lambda writer: writer.swap_fence(old, new))

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root."""
        row = 0
        while row >= 0:
            row, nodes = await self._read(partial(SqliteReader.page, after=row))
            yield nodes

    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        def body(writer: SqliteWriter) -> None:
            plan = writer.plan(fence)
            for operation in operations:
                plan.apply(operation)
            writer.commit(plan)
            for path, number in sequences.items():
                writer.raise_sequence(path, number)

        await self._write(body)

    # --- the thread

    async def _read(self, body: Callable[[SqliteReader], T]) -> T:
        try:
            return cast(T, await self._answer(self._jobs.read(body, self._job_deadline())))
        except TimeoutError:
            raise MetadataUnavailableError(self._late("no result")) from None

    async def _write(self, body: Callable[[SqliteWriter], T]) -> T:
        job = self._jobs.write(body, self._job_deadline())
        try:
            result = await self._answer(job)
        except TimeoutError:
            if job.is_withdrawn:
                raise MetadataUnavailableError(self._late("a write did not begin")) from None
            raise IndeterminateError(self._late("a write did not end")) from None
        self.poller.check_soon()
        return cast(T, result)

    def _job_deadline(self) -> float:
        """Return the monotonic time by which a job that is queued now must end, in seconds.

        Raises ClosedError.
        """
        self._check_open()
        return time.monotonic() + self.timeout_ms / 1000

    async def _answer(self, job: Job) -> object:
        """Wait for a job for at most 1.5 timeouts, in case the disk hangs."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.timeout_ms / 1000 * 1.5, self._jobs.give_up, job)
        try:
            return await job.answer
        except asyncio.CancelledError:
            self._jobs.withdraw(job)
            raise
        finally:
            timer.cancel()

    def _late(self, what: str) -> str:
        return f"{self.uri}: {what} within the timeout of {self.timeout_ms} ms"

    # --- watches

    def _watches_changed(self, _: str) -> None:
        if self._watches and not self._is_closed:
            self.poller.start()
        else:
            self.poller.stop()

    async def _changes_after(self, number: int) -> tuple[int, list[str] | None]:
        return await self._read(partial(self._database.changes_after, number))
