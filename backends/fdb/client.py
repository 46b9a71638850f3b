"""An asyncio adapter for FoundationDB's futures, with retries and conversion of errors.

The bindings run a network thread of their own, which calls ``on_ready`` callbacks; these reach the
loop through ``call_soon_threadsafe``. Protocols describe the used part of the bindings, so that the
same code runs on the tests' model of FoundationDB's transactions.
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
"""Error codes of a commit that certainly had no effect.

Errors of the client itself (2000 to 2999) had no effect either. After all other errors the outcome
is unknown, such as 1021 (commit_unknown_result), 1031 (timed out) and 1039
(cluster_version_changed).
"""

_TOO_LARGE = (2101, 2102, 2103)


class FdbFuture(Protocol):
    """A future of the bindings."""

    def on_ready(self, callback: "Callable[[FdbFuture], None]") -> None:
        """Call ``callback`` once, from any thread."""
        ...

    def wait(self) -> Any:  # noqa: ANN401 - each call has its own type
        """Return the result or raise the error; blocks until the future is ready."""
        ...

    def cancel(self) -> None:
        """Cancel the operation."""
        ...


class FdbTransaction(Protocol):
    """The methods of a transaction of the bindings that this package uses."""

    options: Any

    def get(self, key: bytes) -> FdbFuture:
        """Read a key; the result is an object whose ``value`` is the value, or None."""
        ...

    def _get_range(
        self, begin: object, end: object, limit: int, mode: int, iteration: int, reverse: bool
    ) -> FdbFuture:
        """Read a range; the result is (key-value pairs, their count, True if there are more)."""
        ...

    def set(self, key: bytes, value: bytes) -> None:
        """Write a key."""
        ...

    def set_versionstamped_value(self, key: bytes, param: bytes) -> None:
        """Write a key with the transaction's versionstamp in its value."""
        ...

    def clear(self, key: bytes) -> None:
        """Remove a key."""
        ...

    def watch(self, key: bytes) -> FdbFuture:
        """Return a future that is ready when the value differs from what this transaction sees."""
        ...

    def commit(self) -> FdbFuture:
        """Commit the transaction."""
        ...

    def get_versionstamp(self) -> FdbFuture:
        """Return a future of the versionstamp; to be called before the commit."""
        ...

    def on_error(self, error: Exception) -> FdbFuture:
        """Wait and reset the transaction if the error allows a retry, else raise the error."""
        ...


class Bindings(Protocol):
    """An open database, and the other parts of the bindings that this package uses."""

    error: type[Exception]

    def transaction(self) -> FdbTransaction:
        """Return a new transaction."""
        ...

    def first_at_or_after(self, key: bytes) -> object:
        """Return a key selector."""
        ...


class Transactions:
    """Runs transactions until they succeed, fail permanently, or reach their deadline."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._loop = asyncio.get_running_loop()
        self.is_closed = False

    async def read(self, body: "Callable[[Reads], Awaitable[T]]", deadline: float) -> T:
        """Run a read-only transaction. Raises MetadataUnavailableError and errors of ``body``."""
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
        """Run ``body`` and commit; return its result and the versionstamp.

        If the outcome of a commit is unknown, the next attempt calls ``find_committed`` for the
        versionstamp of that commit and, if there is one, returns it with the earlier result. The
        client reports an unknown outcome only when that commit cannot take effect later. Raises
        MetadataUnavailableError, IndeterminateError, LimitExceededError and errors of ``body``.
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
        """Watch a key for changes of its current value. Raises MetadataUnavailableError.

        The transaction has no time-out of its own, since that would end the watch too.
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
                raise MetadataUnavailableError("no response from FoundationDB in time") from None
            except self._bindings.error as error:
                future.cancel()
                await self._recover(transaction, error, deadline)

    async def wait_fired(self, future: FdbFuture) -> bool:
        """Wait for a watch; False if it was lost and must be set again."""
        try:
            await self.wait(future)
        except self._bindings.error:
            return False
        return True

    async def wait(self, future: FdbFuture) -> Any:  # noqa: ANN401 - as ``FdbFuture.wait``
        """Return the result of a future of the bindings, or raise its error."""
        done: asyncio.Future[None] = self._loop.create_future()

        def resolve() -> None:
            if not done.done():
                done.set_result(None)

        def ready(_: FdbFuture) -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(resolve)

        future.on_ready(ready)
        await done
        return future.wait()

    def _reads(self, transaction: FdbTransaction) -> "Reads":
        return Reads(self, transaction, self._bindings.first_at_or_after)

    def _begin(self, deadline: float) -> FdbTransaction:
        """Begin a transaction that ends at the deadline even if it is retried.

        ``on_error`` keeps the transaction's time-out and doubles the pauses between attempts.
        """
        if self.is_closed:
            raise ClosedError("the FoundationDB store is closed")
        remaining_ms = int((deadline - self._loop.time()) * 1000)
        if remaining_ms <= 0:
            raise MetadataUnavailableError("no response from FoundationDB in time")
        transaction = self._bindings.transaction()
        transaction.options.set_timeout(remaining_ms)
        return transaction

    async def _recover(
        self,
        transaction: FdbTransaction,
        error: Exception,
        deadline: float,
        *,
        in_doubt: bool = False,
    ) -> None:
        """Wait as long as the bindings demand before a retry, or raise the converted error."""
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
    """Asynchronous reads in one transaction, and the transaction itself for writes."""

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
        """Return the values of keys, requested concurrently."""
        futures = [self.transaction.get(key) for key in keys]
        return [(await self._transactions.wait(future)).value for future in futures]

    async def range(self, keys: FdbKeyRange, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Return at most ``limit`` pairs of a range, in order (0: all)."""
        begin, end = self._selector(keys.start), self._selector(keys.end)
        pairs: list[tuple[bytes, bytes]] = []
        iteration = 1
        while True:
            remaining = limit - len(pairs) if limit else 0
            future = self.transaction._get_range(begin, end, remaining, WANT_ALL, iteration, False)
            found, count, more = await self._transactions.wait(future)
            pairs += [(bytes(pair.key), bytes(pair.value)) for pair in found]
            if not count or not more or (limit and len(pairs) >= limit):
                return pairs
            begin = self._selector(pairs[-1][0] + b"\x00")
            iteration += 1
