"""FoundationDB's futures behind asyncio, and its errors as ours.

The bindings run a network thread of their own; ``on_ready`` calls come from it and reach the loop
by ``call_soon_threadsafe``. What is used of the bindings is written down as protocols, so that the
same code runs on the model of its transactions that the tests have.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from ...core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    LimitExceededError,
    MetadataUnavailableError,
)
from .keys import FdbKeyRange

T = TypeVar("T")

WANT_ALL = -2
"""``fdb.StreamingMode.want_all``."""

NOT_COMMITTED = frozenset(
    {
        1007,  # the transaction is too old
        1009,  # its version is in the future
        1020,  # a conflict
        1037,  # a storage server is behind
        1038,  # the database is locked
        1042,  # a commit proxy has no memory left
        1051,  # throttled
        1078,  # a proxy of read versions has no memory left
        1213,  # throttled by tag
    }
)
"""After a commit, these say that it did not happen; so do errors of the client itself (2000 to
2999). All others leave it open, above all 1021 (commit_unknown_result), 1031 (timed out) and 1039
(cluster_version_changed)."""

_TOO_LARGE = (2101, 2102, 2103)


class FdbFuture(Protocol):
    """What a call of the bindings returns."""

    def on_ready(self, callback: "Callable[[FdbFuture], None]") -> None:
        """Calls back once, from any thread."""
        ...

    def wait(self) -> Any:  # noqa: ANN401 - each call has its own type
        """The result; raises the error. Does not block once ready."""
        ...

    def cancel(self) -> None:
        """Gives it up."""
        ...


class FdbTransaction(Protocol):
    """What is used of a transaction."""

    options: Any

    def get(self, key: bytes) -> FdbFuture:
        """An object whose ``value`` is the value, or None."""
        ...

    def _get_range(
        self, begin: object, end: object, limit: int, mode: int, iteration: int, reverse: bool
    ) -> FdbFuture:
        """(key-value pairs, their count, whether there are more)."""
        ...

    def set(self, key: bytes, value: bytes) -> None:
        """Writes a key."""
        ...

    def set_versionstamped_value(self, key: bytes, param: bytes) -> None:
        """Writes a key with the transaction's versionstamp in its value."""
        ...

    def clear(self, key: bytes) -> None:
        """Removes a key."""
        ...

    def watch(self, key: bytes) -> FdbFuture:
        """Ready when the key's value differs from what this transaction sees."""
        ...

    def commit(self) -> FdbFuture:
        """Commits."""
        ...

    def get_versionstamp(self) -> FdbFuture:
        """Asked for before the commit, ready after it: an object with the bytes as ``value``."""
        ...

    def on_error(self, error: Exception) -> FdbFuture:
        """Waits and resets the transaction if the error allows a retry, or raises it."""
        ...


class Bindings(Protocol):
    """The open database with what else is needed of the bindings."""

    error: type[Exception]

    def transaction(self) -> FdbTransaction:
        """A new transaction."""
        ...

    def first_at_or_after(self, key: bytes) -> object:
        """A key selector."""
        ...


class Transactions:
    """Runs transactions until they succeed, fail for good, or the deadline has passed."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._loop = asyncio.get_running_loop()
        self.is_closed = False

    async def read(self, body: "Callable[[Reads], Awaitable[T]]", deadline: float) -> T:
        """A read-only transaction. Raises MetadataUnavailableError and what ``body`` raises."""
        transaction = self._begin(deadline)
        while True:
            try:
                return await body(self._reads(transaction))
            except self._bindings.error as error:
                await self._recover(transaction, error, deadline)

    async def write(
        self,
        body: "Callable[[Reads], Awaitable[T]]",
        find_committed: "Callable[[Reads], Awaitable[bytes | None]]",
        deadline: float,
    ) -> tuple[T, bytes]:
        """Runs ``body`` and commits; its result and the versionstamp.

        When a commit's outcome was unknown, ``find_committed`` is asked in the next attempt for the
        versionstamp of that commit: if it is there, that is the result (and no other). The client
        says "unknown" only when that commit cannot happen later any more. Raises
        MetadataUnavailableError, IndeterminateError, LimitExceededError and what ``body`` raises.
        """
        uncertain_results: list[T] = []
        transaction = self._begin(deadline)
        while True:
            is_committing = False
            try:
                reads = self._reads(transaction)
                if uncertain_results and (earlier := await find_committed(reads)) is not None:
                    return uncertain_results[-1], earlier
                result = await body(reads)
                stamp = transaction.get_versionstamp()
                is_committing = True
                await self.wait(transaction.commit())
                return result, (await self.wait(stamp)).value
            except self._bindings.error as error:
                if is_committing and _may_be_committed(error):
                    uncertain_results.append(result)
                await self._recover(transaction, error, deadline, in_doubt=bool(uncertain_results))

    async def watch(self, key: bytes, deadline: float) -> FdbFuture:
        """A watch of a key from its present value on. Raises MetadataUnavailableError.

        Its transaction has no time-out of its own, since that would end the watch too.
        """
        transaction = self._bindings.transaction()
        while True:
            future = transaction.watch(key)
            try:
                async with asyncio.timeout_at(deadline):
                    await self.wait(transaction.commit())
                return future
            except TimeoutError:
                future.cancel()
                raise MetadataUnavailableError("FoundationDB did not answer in time") from None
            except self._bindings.error as error:
                future.cancel()
                await self._recover(transaction, error, deadline)

    async def wait_fired(self, future: FdbFuture) -> bool:
        """Waits for a watch. False: it was lost and must be set again."""
        try:
            await self.wait(future)
        except self._bindings.error:
            return False
        return True

    async def wait(self, future: FdbFuture) -> Any:  # noqa: ANN401 - as ``FdbFuture.wait``
        """The result of a future of the bindings; raises its error."""
        done: asyncio.Future[None] = self._loop.create_future()

        def resolve() -> None:
            if not done.done():
                done.set_result(None)

        def ready(_: FdbFuture) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(resolve)

        future.on_ready(ready)
        await done
        return future.wait()

    def _reads(self, transaction: FdbTransaction) -> "Reads":
        return Reads(self, transaction, self._bindings.first_at_or_after)

    def _begin(self, deadline: float) -> FdbTransaction:
        """A transaction that cannot outlive the deadline, also when it is tried again and again:
        ``on_error`` keeps its time-out, and doubles its pauses."""
        if self.is_closed:
            raise ClosedError("the FoundationDB store is closed")
        left_ms = int((deadline - self._loop.time()) * 1000)
        if left_ms <= 0:
            raise MetadataUnavailableError("FoundationDB did not answer in time")
        transaction = self._bindings.transaction()
        transaction.options.set_timeout(left_ms)
        return transaction

    async def _recover(
        self,
        transaction: FdbTransaction,
        error: Exception,
        deadline: float,
        *,
        in_doubt: bool = False,
    ) -> None:
        """Waits as long as the bindings want before another attempt, or raises what it means."""
        code = getattr(error, "code", 0)
        if code in _TOO_LARGE:
            raise LimitExceededError(f"FoundationDB: {error}") from error
        final: type[MetadataUnavailableError | IndeterminateError]
        final = IndeterminateError if in_doubt else MetadataUnavailableError
        if self._loop.time() >= deadline:
            raise final(f"FoundationDB: {error}") from error
        try:
            async with asyncio.timeout_at(deadline):
                await self.wait(transaction.on_error(error))
        except (self._bindings.error, TimeoutError):
            raise final(f"FoundationDB: {error}") from error


def _may_be_committed(error: Exception) -> bool:
    code: int = getattr(error, "code", 0)
    return code not in NOT_COMMITTED and not 2000 <= code < 3000


class Reads:
    """The reads of one transaction, and the transaction for its writes."""

    def __init__(
        self,
        transactions: Transactions,
        transaction: FdbTransaction,
        selector: Callable[[bytes], object],
    ) -> None:
        self._transactions = transactions
        self._selector = selector
        self.transaction = transaction

    async def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, asked for at once."""
        futures = [self.transaction.get(key) for key in keys]
        return [(await self._transactions.wait(future)).value for future in futures]

    async def range(self, keys: FdbKeyRange, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """The pairs of a range, in order, at most ``limit`` (0: all)."""
        begin, end = self._selector(keys.start), self._selector(keys.end)
        pairs: list[tuple[bytes, bytes]] = []
        iteration = 1
        while True:
            left = limit - len(pairs) if limit else 0
            future = self.transaction._get_range(begin, end, left, WANT_ALL, iteration, False)
            found, count, more = await self._transactions.wait(future)
            pairs += [(bytes(pair.key), bytes(pair.value)) for pair in found]
            if not count or not more or (limit and len(pairs) >= limit):
                return pairs
            begin = self._selector(pairs[-1][0] + b"\x00")
            iteration += 1
