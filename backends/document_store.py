"""A metadata store in a single document that is replaced by compare-and-set.

Any place that can do this carries a complete store: a file with a lock, an object with conditional
writes, a row of a database. A ``Document`` provides the place. The store reads the whole tree,
applies a transaction and replaces the document if nobody else did meanwhile; otherwise it repeats.
Sessions are leases in the document, and watches are found by polling. This suits some thousand
nodes, because each write sends all of them.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from random import SystemRandom
from typing import NamedTuple, Protocol, TypeVar

from ..core.protocol.errors import (
    CorruptionError,
    IndeterminateError,
    MetadataError,
    MetadataUnavailableError,
    NoNodeError,
    RhumblineError,
    SessionLostError,
)
from ..core.runtime.metadata_store import Operation, Session, Value, Version
from .document_tree import DocumentTree, decode_tree
from .leases import Lease, Leases, LeaseSession, Owner
from .migration_fence import FenceState
from .store_base import StoreBase
from .transaction_plan import Node, TransactionPlan, versions_of
from .watches import Watches

T = TypeVar("T")

POLL_MS = 20
"""Default interval in milliseconds between reads of the document for watches."""

_CONFLICT_MS_MAX = 10


class Document(Protocol):
    """One document with a tag that changes whenever the content changes.

    A call may block for as long as it likes: the store abandons (cancels) it at its deadline.
    """

    async def read(self, known: str | None) -> tuple[str, bytes] | None:
        """Return tag and content; None if the tag is still ``known``.

        A document that does not exist has the tag "" and no content. The read sees every
        replacement that was acknowledged before it began. Raises MetadataUnavailableError.
        """
        ...

    async def replace(self, data: bytes, expect: str) -> str | None:
        """Store ``data`` durably if the tag is ``expect``, and return the new tag; None if not.

        A tag is never used twice. With ``expect`` "" the document must not exist. Raises
        MetadataUnavailableError if nothing was stored, IndeterminateError if that is unknown.
        """
        ...

    async def close(self) -> None:
        """Release what the document holds."""
        ...


class _Content(NamedTuple):
    """A version of the document."""

    tag: str
    data: bytes
    tree: DocumentTree


class DocumentStore(StoreBase):
    """A handle to the document, for one process; ``start`` is called before any other method."""

    def __init__(
        self, uri: str, document: Document, timeout_ms: int, *, poll_ms: int = POLL_MS
    ) -> None:
        super().__init__(uri, timeout_ms)
        self._document = document
        self._poll_ms = poll_ms
        self._content: _Content | None = None
        self._writing = asyncio.Lock()
        self._watches = Watches()
        self._leases = Leases(self, lambda: Owner(os.urandom(8).hex()))

    async def start(self) -> None:
        """Create the document if there is none, and begin to observe it.

        The store is closed if this fails. Raises MetadataUnavailableError, CorruptionError.
        """
        try:
            await self._read(is_fenced=False)
        except BaseException:
            await self.close()
            raise
        self._tasks.spawn(self._poll(), "document watches")
        self._leases.start()

    async def _get(self, path: str, *, stale_ok: bool) -> Value:
        (value,) = await self._get_all([path], stale_ok=stale_ok)
        if value is None:
            raise NoNodeError(path)
        return value

    async def _get_all(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        tree = await self._read(stale_ok=stale_ok)
        nodes = [tree.node(path) for path in paths]
        return [None if node is None else Value(node.data, node.version) for node in nodes]

    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]:
        return (await self._read(stale_ok=stale_ok)).names_after(path, after, limit)

    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]:
        owner = None if ephemeral is None else self._leases.own_session(ephemeral).owner

        def change(tree: DocumentTree) -> tuple[str, Version]:
            if owner is not None and owner not in tree.leases:
                raise SessionLostError(f"session {owner} has ended")
            plan = TransactionPlan(tree)
            created = plan.create(path, data, owner, sequential=sequential)
            return created, tree.commit(plan)

        return await self._write(change)

    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]:
        return await self._write(lambda tree: versions_of(operations, tree.apply(operations)))

    async def session(self, ttl_ms: int) -> LeaseSession:
        """Open a session that survives up to ``ttl_ms`` without contact."""
        return await self._leases.open(ttl_ms)

    async def _end_leases(self) -> None:
        await self._leases.aclose()

    async def _disconnect(self) -> None:
        await self._document.close()

    # --- lease rows (``LeaseRows``)

    async def add_lease(self, owner: Owner, ttl_ms: int) -> None:
        """Create the lease of a session."""

        def change(tree: DocumentTree) -> None:
            tree.leases.setdefault(owner, Lease(ttl_ms, 0))

        await self._write(change)

    async def renew_lease(self, owner: Owner) -> bool:
        """Increment the counter; False if the lease no longer exists."""

        def change(tree: DocumentTree) -> bool:
            lease = tree.leases.get(owner)
            if lease is not None:
                tree.leases[owner] = lease._replace(counter=lease.counter + 1)
            return lease is not None

        return await self._write(change)

    async def leases(self) -> dict[Owner, Lease]:
        """Return all leases."""
        return (await self._read()).leases

    async def end_lease(self, owner: Owner, counter: int | None) -> None:
        """Remove the lease and its nodes if the counter is still ``counter`` (None: any)."""

        def change(tree: DocumentTree) -> None:
            lease = tree.leases.get(owner)
            if lease is not None and counter in (None, lease.counter):
                tree.end_lease(owner)

        await self._write(change)

    # --- migration (``MovableStore``)

    async def _read_fence(self, *, stale_ok: bool) -> FenceState:
        return (await self._read(is_fenced=False, stale_ok=stale_ok)).fence

    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool:
        def change(tree: DocumentTree) -> bool:
            if tree.fence != old:
                return False
            tree.set_fence(new)
            return True

        return await self._write(change, is_fenced=False)

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root."""
        tree = await self._read(is_fenced=False)
        yield [(path, node) for path in tree.paths() if (node := tree.node(path)) is not None]

    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        def change(tree: DocumentTree) -> None:
            tree.fence.check(fence)
            tree.apply(operations)
            for path, number in sequences.items():
                tree.raise_sequence(path, number)

        await self._write(change, is_fenced=False)

    # --- the document

    async def _read(self, *, is_fenced: bool = True, stale_ok: bool = False) -> DocumentTree:
        """Return the tree; with ``stale_ok`` the last one that was read, if the place is away."""
        self._check_open()
        try:
            tree = (await self._read_content(self._deadline())).tree
        except MetadataUnavailableError:
            if not stale_ok or self._content is None:
                raise
            return self._content.tree
        if is_fenced and not stale_ok:
            tree.fence.check_open()
        return tree

    async def _write(self, change: Callable[[DocumentTree], T], *, is_fenced: bool = True) -> T:
        """Carry out ``change`` on the current tree; it may be called several times."""
        self._check_open()
        deadline = self._deadline()
        await self._until(deadline, self._writing.acquire(), MetadataUnavailableError)
        try:
            while True:
                current = await self._read_content(deadline)
                tree = decode_tree(current.data, self.uri)
                if is_fenced:
                    tree.fence.check_open()
                result = change(tree)
                data = tree.encode()
                replacing = self._document.replace(data, current.tag)
                tag = await self._until(deadline, replacing, IndeterminateError)
                if tag is not None:
                    self._content = _Content(tag, data, tree)
                    return result
                await asyncio.sleep(SystemRandom().uniform(0, _CONFLICT_MS_MAX) / 1000)
        finally:
            self._writing.release()

    async def _read_content(self, deadline: float) -> _Content:
        """Return the current document; create it if there is none."""
        while True:
            known = self._content
            reading = self._document.read(None if known is None else known.tag)
            found = await self._until(deadline, reading, MetadataUnavailableError)
            if found is None:
                assert known is not None, "the document answers that nothing changed, unasked"
                return known
            tag, data = found
            if tag:
                self._content = _Content(tag, data, decode_tree(data, self.uri))
                return self._content
            await self._create_document(deadline)

    async def _create_document(self, deadline: float) -> None:
        epoch = os.urandom(8).hex()
        empty = DocumentTree(FenceState(epoch, tree=epoch)).encode()
        creating = self._document.replace(empty, "")
        try:
            await self._until(deadline, creating, MetadataUnavailableError)
        except IndeterminateError as error:  # the caller has asked for nothing yet
            raise MetadataUnavailableError(str(error)) from error

    async def _until(self, deadline: float, call: Awaitable[T], late: type[RhumblineError]) -> T:
        """Wait for a call until the deadline, a loop time. Raises ``late`` if it passes."""
        try:
            async with asyncio.timeout_at(deadline):
                return await call
        except TimeoutError:
            raise late(f"{self.uri}: no result within {self.timeout_ms} ms") from None

    async def _poll(self) -> None:
        """Fire the watches of paths that any process changed."""
        seen: tuple[str, int] | None = None
        while True:
            try:
                tree = await self._read(is_fenced=False)
            except (MetadataError, CorruptionError):
                seen = None
            else:
                is_known = seen is not None and seen[0] == tree.fence.epoch
                changed = tree.changed_since(seen[1]) if seen is not None and is_known else None
                if changed is None:
                    self._watches.fire_all()
                else:
                    self._watches.changed(changed)
                seen = (tree.fence.epoch, tree.revision)
            await asyncio.sleep(self._poll_ms / 1000)
