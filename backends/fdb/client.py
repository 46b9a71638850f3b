"""An asyncio adapter for FoundationDB's transactions, with retries and conversion of errors.

The bindings run a network thread of their own, which calls ``on_ready`` callbacks; these reach the
loop through ``call_soon_threadsafe``. A future that is already ready needs neither.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ...core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    LimitExceededError,
    MetadataUnavailableError,
)
from .bindings import Bindings, FdbFuture, FdbTransaction
from .errors import CONFLICT, NO_RESPONSE, code_of, describe, is_too_large, may_be_committed
from .keys import version_of_stamp
from .reads import Reads

T = TypeVar("T")

READ_VERSION_AGE_S_MAX = 1.0
"""Age of the last commit up to which a write may begin at its version instead of at a new one.

Nothing can be read at a version that is older than about five seconds.
"""


class OldVersionError(Exception):
    """A decision must be repeated at the current version; raised by a body and never passed on."""


class Transactions:
    """Runs transactions until they succeed, fail permanently, or reach their deadline."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._loop = asyncio.get_running_loop()
        self._committed_version = 0
        self._committed_at = float("-inf")
        self._current_until = float("-inf")
        self._had_response = False
        self.is_closed = False

    async def read(self, body: Callable[[Reads], Awaitable[T]], deadline: float) -> T:
        """Run a read-only transaction. Raises MetadataUnavailableError and errors of ``body``."""
        transaction = self._begin(deadline)
        while True:
            try:
                result = await body(self._reads(transaction))
            except self._bindings.error as error:
                await self._recover(transaction, error, deadline)
            else:
                self._had_response = True
                return result

    async def write(
        self,
        body: Callable[[Reads], Awaitable[T]],
        find_committed: Callable[[Reads], Awaitable[bytes | None]],
        deadline: float,
        *,
        may_be_old: bool = False,
    ) -> tuple[T, bytes]:
        """Run ``body`` and commit; return its result and the versionstamp.

        If the outcome of a commit is unknown, the next attempt calls ``find_committed`` for the
        versionstamp of that commit and, if there is one, returns it with the earlier result. The
        client reports an unknown outcome only when that commit cannot take effect later.

        With ``may_be_old``, the first attempt reads at the version of the last commit of this
        client, which saves the round trip for the current version. The commit is then refused if
        anything that ``body`` has read was changed since that version; but ``body`` must raise
        OldVersionError if ``Reads.is_old`` and it would refuse something because of what it has
        read. Raises MetadataUnavailableError, IndeterminateError, LimitExceededError and errors of
        ``body``.
        """
        uncertain_results: list[T] = []
        transaction = self._begin(deadline)
        is_old = may_be_old and self._begins_at_last_commit(transaction)
        while True:
            is_committing = False
            try:
                reads = self._reads(transaction, is_old=is_old)
                if uncertain_results and (earlier := await find_committed(reads)) is not None:
                    return uncertain_results[-1], earlier
                result = await body(reads)
                stamp = transaction.get_versionstamp()
                is_committing = True
                await self.wait(transaction.commit())
                return result, self._remembered((await self.wait(stamp)).value)
            except OldVersionError:
                assert is_old, "the version was the current one"
                transaction = self._begin(deadline)
            except self._bindings.error as error:
                if is_committing and may_be_committed(error):
                    uncertain_results.append(result)
                if is_old and code_of(error) == CONFLICT:
                    self._current_until = self._loop.time() + READ_VERSION_AGE_S_MAX
                    transaction = self._begin(deadline)
                else:
                    in_doubt = bool(uncertain_results)
                    await self._recover(transaction, error, deadline, in_doubt=in_doubt)
            is_old = False

    async def watch(self, keys: Sequence[bytes], deadline: float) -> list[FdbFuture]:
        """Watch keys for changes of their current values. Raises MetadataUnavailableError.

        The transaction has no timeout of its own, since that would end the watches too.
        """
        if self.is_closed:
            raise ClosedError("the FoundationDB store is closed")
        transaction = self._bindings.transaction()
        while True:
            futures = [transaction.watch(key) for key in keys]
            try:
                async with asyncio.timeout_at(deadline):
                    await self.wait(transaction.commit())
            except TimeoutError:
                _cancel(futures)
                raise MetadataUnavailableError(NO_RESPONSE + self._hint()) from None
            except self._bindings.error as error:
                _cancel(futures)
                await self._recover(transaction, error, deadline)
            except BaseException:
                _cancel(futures)
                raise
            else:
                self._had_response = True
                return futures

    def when_ready(self, future: FdbFuture, callback: Callable[[FdbFuture], None]) -> None:
        """Call ``callback`` once from the event loop when a future of the bindings is ready."""

        def ready(_: FdbFuture) -> None:
            try:
                self._loop.call_soon_threadsafe(callback, future)
            except RuntimeError:  # the loop is closed, and with it everything that waited
                return

        future.on_ready(ready)

    def has_failed(self, future: FdbFuture) -> bool:
        """Return whether a future that is ready has an error instead of a result."""
        try:
            future.wait()
        except self._bindings.error:
            return True
        return False

    async def wait(self, future: FdbFuture) -> Any:  # noqa: ANN401 - as ``FdbFuture.wait``
        """Return the result of a future of the bindings, or raise its error."""
        if not future.is_ready():
            done: asyncio.Future[None] = self._loop.create_future()

            def resolve(_: FdbFuture) -> None:
                if not done.done():
                    done.set_result(None)

            self.when_ready(future, resolve)
            await done
        return future.wait()

    def _reads(self, transaction: FdbTransaction, *, is_old: bool = False) -> Reads:
        return Reads(transaction, self.wait, self._bindings.first_at_or_after, is_old=is_old)

    def _begins_at_last_commit(self, transaction: FdbTransaction) -> bool:
        """Let the transaction read at the version of the last commit, if that was recent.

        Not for a while after a conflict, since others then write the same nodes.
        """
        now = self._loop.time()
        if now - self._committed_at > READ_VERSION_AGE_S_MAX or now < self._current_until:
            return False
        transaction.set_read_version(self._committed_version)
        return True

    def _remembered(self, stamp: bytes) -> bytes:
        """Remember the version of a commit, unless a later one is known; return the stamp."""
        self._had_response = True
        version, now = version_of_stamp(stamp), self._loop.time()
        if version > self._committed_version or now - self._committed_at > READ_VERSION_AGE_S_MAX:
            self._committed_version, self._committed_at = version, now
        return stamp

    def _begin(self, deadline: float) -> FdbTransaction:
        """Begin a transaction that ends at the deadline even if it is retried.

        ``on_error`` keeps the transaction's timeout and doubles the pauses between attempts.
        """
        if self.is_closed:
            raise ClosedError("the FoundationDB store is closed")
        remaining_ms = int((deadline - self._loop.time()) * 1000)
        if remaining_ms <= 0:
            raise MetadataUnavailableError(NO_RESPONSE + self._hint())
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
        if is_too_large(error):
            raise LimitExceededError(describe(error)) from error
        final: type[MetadataUnavailableError | IndeterminateError]
        final = IndeterminateError if in_doubt else MetadataUnavailableError
        if self._loop.time() >= deadline:
            raise final(describe(error) + self._hint()) from error
        try:
            async with asyncio.timeout_at(deadline):
                await self.wait(transaction.on_error(error))
        except (self._bindings.error, TimeoutError):
            raise final(describe(error) + self._hint()) from error

    def _hint(self) -> str:
        return "" if self._had_response else self._bindings.hint


def _cancel(futures: Sequence[FdbFuture]) -> None:
    for future in futures:
        future.cancel()
