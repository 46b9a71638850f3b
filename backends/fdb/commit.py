"""Carries out operations as FoundationDB transactions.

A transaction reads the data that the operations depend on, plans and writes; FoundationDB itself
refuses the commit if something that was read has changed. The version of a node is the versionstamp
of its last write, which is part of its value. Every transaction also writes a token, by which a
commit with unknown outcome is found instead of being repeated. Later transactions remove tokens
that are not needed any more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from ...core.protocol.errors import IndeterminateError, RhumblineError
from ...core.runtime.metadata_store import Operation, Version
from ...core.runtime.tasks import Tasks
from ..leases import Owner
from ..migration_fence import FenceState
from .bindings import FdbTransaction
from .client import OldVersionError, Transactions
from .group_commit import GroupCommit, Result, Written
from .keys import FdbKeys, encode_stamp
from .reads import Reads
from .requests import (
    BatchView,
    CommitRequest,
    CreateRequest,
    Decision,
    Outcome,
    Rows,
    UnreadError,
    Wanted,
    WriteRequest,
    decide_batch,
    fence_of,
    version_of,
)

T = TypeVar("T")

SPENT_TOKENS_MAX = 16
"""Number of old tokens that one transaction removes."""


class _NothingToWriteError(Exception):
    """No request of a batch writes anything; their outcomes are known without a commit."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        super().__init__(f"{len(outcomes)} requests")
        self.outcomes = outcomes


class FdbCommits:
    """Carries out the operations of one store as transactions."""

    def __init__(
        self,
        transactions: Transactions,
        keys: FdbKeys,
        new_token: Callable[[], bytes],
        tasks: Tasks,
    ) -> None:
        self._transactions = transactions
        self._keys = keys
        self._new_token = new_token
        self._group = GroupCommit(self._carry_out, tasks)
        self._spent: list[bytes] = []

    async def commit(
        self,
        operations: Sequence[Operation],
        deadline: float,
        allowed_fence: FenceState | None = None,
        sequences: Mapping[str, int] | None = None,
    ) -> Version:
        """Carry out all operations or none; return the version of everything written.

        ``allowed_fence`` and ``sequences`` are those of ``MovableStore.load``.
        """
        request = CommitRequest(operations, allowed_fence, sequences or {})
        return (await self._group.submit(request, deadline)).version

    async def create(
        self, path: str, data: bytes, owner: Owner | None, deadline: float, *, sequential: bool
    ) -> tuple[str, Version]:
        """Create one node; return its path and version.

        Raises SessionLostError if the owner's lease has ended, and as ``commit``.
        """
        request = CreateRequest(path, data, owner, sequential)
        written = await self._group.submit(request, deadline)
        return written.created, written.version

    async def write(
        self,
        body: Callable[[Reads], Awaitable[T]],
        deadline: float,
        *,
        may_be_old: bool = False,
    ) -> tuple[T, bytes]:
        """Run and commit ``body`` exactly once, even if single commits have unknown outcomes.

        ``may_be_old`` as for ``Transactions.write``.
        """
        token = self._keys.token(self._new_token())
        spent, self._spent = self._spent[:SPENT_TOKENS_MAX], self._spent[SPENT_TOKENS_MAX:]

        async def with_token(reads: Reads) -> T:
            result = await body(reads)
            reads.transaction.set_versionstamped_value(token, encode_stamp())
            for old in spent:
                reads.transaction.clear(old)
            return result

        async def find_committed(reads: Reads) -> bytes | None:
            (stamp,) = await reads.get([token])
            return stamp

        try:
            written = await self._transactions.write(
                with_token, find_committed, deadline, may_be_old=may_be_old
            )
        except (IndeterminateError, asyncio.CancelledError):
            self._spent += [*spent, token]  # the token may have been written
            raise
        except BaseException:
            self._spent += spent
            raise
        self._spent.append(token)
        return written

    def drop_tokens(self) -> None:
        """Remember no tokens any more, since the database that held them is gone."""
        self._spent.clear()

    async def clear_tokens(self, deadline: float) -> None:
        """Remove the remaining tokens, before the store closes."""
        while self._spent:
            spent = self._spent[:SPENT_TOKENS_MAX]

            async def body(reads: Reads, spent: list[bytes] = spent) -> None:
                for old in spent:
                    reads.transaction.clear(old)

            async def unknown(_: Reads) -> bytes | None:
                return None  # clearing is idempotent

            await self._transactions.write(body, unknown, deadline)
            self._spent = self._spent[len(spent) :]

    async def open_epoch(self, reads: Reads) -> str:
        """Return the store's epoch. Raises StoreFencedError if the store was replaced."""
        fence = await self.fence(reads)
        fence.check_open()
        return fence.epoch

    async def fence(self, reads: Reads) -> FenceState:
        """Return the migration fence. Raises as ``fence_of``."""
        (row,) = await reads.get([self._keys.fence])
        return fence_of(row)

    def set_fence(self, transaction: FdbTransaction, state: FenceState) -> None:
        """Write the fence, which every write transaction reads."""
        transaction.set(self._keys.fence, state.encode())

    async def _carry_out(self, requests: Sequence[WriteRequest], deadline: float) -> list[Result]:
        """Carry out requests in one transaction; those that are refused leave the others alone."""

        async def body(reads: Reads) -> tuple[str, list[Outcome]]:
            view, outcomes = await self._decide(reads, requests)
            if reads.is_old and any(isinstance(each, RhumblineError) for each in outcomes):
                raise OldVersionError
            if not any(isinstance(each, Decision) for each in outcomes):
                raise _NothingToWriteError(outcomes)
            return view.fence.epoch, outcomes

        try:
            (epoch, outcomes), stamp = await self.write(body, deadline, may_be_old=True)
        except _NothingToWriteError as nothing:
            return [each for each in nothing.outcomes if not isinstance(each, Decision)]
        version = version_of(epoch, stamp)
        return [
            Written(version, each.created) if isinstance(each, Decision) else each
            for each in outcomes
        ]

    async def _decide(
        self, reads: Reads, requests: Sequence[WriteRequest]
    ) -> tuple[BatchView, list[Outcome]]:
        """Read what the requests need, decide them, and add their writes to the transaction."""
        rows = Rows()
        wanted = Wanted({self._keys.fence: None})
        for request in requests:
            wanted.add(request.first_reads(self._keys))
        while True:
            await self._read(reads, wanted, rows)
            view = BatchView(self._keys, rows)
            try:
                outcomes, mutations = decide_batch(view, requests)
            except UnreadError as unread:
                wanted = unread.wanted
                continue
            mutations.apply(reads.transaction)
            return view, outcomes

    async def _read(self, reads: Reads, wanted: Wanted, rows: Rows) -> None:
        """Add what is wanted to the rows; everything is requested at once."""
        ranges = {self._keys.children(path): limit for path, limit in wanted.listings.items()}
        values, found = await reads.get_all(list(wanted.keys), ranges)
        rows.values.update(zip(wanted.keys, values, strict=True))
        for (path, limit), pairs in zip(wanted.listings.items(), found, strict=True):
            rows.listings[path] = limit, [self._keys.child_name(key) for key, _ in pairs]
