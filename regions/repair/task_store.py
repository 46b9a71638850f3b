"""Repair tasks, locks and the auditor's role in the metadata store (rules RPR-5, RPR-14).

::

    <root>/rhumbline/repair/auditor            id of the auditor (ephemeral)
    <root>/rhumbline/repair/todo/<ledger>      RepairTask
    <root>/rhumbline/repair/locks/<ledger>     id of the worker that repairs it (ephemeral)
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    NodeExistsError,
    NoNodeError,
)
from ...core.protocol.metadata_record import fields_to_store
from ...core.runtime.metadata_store import Delete, MetadataStore, Session, Watch

_TEXT_MAX = 500


@dataclass(frozen=True, slots=True)
class RepairTask:
    """A ledger to repair. ``stuck`` is the reason why the last attempt failed, or ""."""

    ledger_id: int
    why: str
    since_ms: int
    stuck: str = ""
    is_hopeless: bool = False
    """True if the last attempt found entries without any copy."""


class TaskStore:
    """All repair tasks of a cluster."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._root = f"{root}/rhumbline/repair"

    # --- tasks ----------------------------------------------------------------------------------

    async def add(self, ledger_id: int, why: str, now_ms: int) -> bool:
        """Add a task for a ledger; False if there is one already. Safe to repeat."""
        task = RepairTask(ledger_id, why[:_TEXT_MAX], now_ms)
        try:
            await idempotent_writes.create(self._store, self._todo(ledger_id), _encode(task))
        except NodeExistsError:
            return False
        return True

    async def mark_stuck(self, ledger_id: int, reason: str, *, is_hopeless: bool) -> None:
        """Record why a task is not done. Safe to repeat."""
        path = self._todo(ledger_id)
        value = await idempotent_writes.read_if_exists(self._store, path)
        if value is None:
            return
        known = _decode(ledger_id, value.data)
        task = RepairTask(ledger_id, known.why, known.since_ms, reason[:_TEXT_MAX], is_hopeless)
        if task != known:
            with suppress(BadVersionError, NoNodeError):
                await idempotent_writes.put(self._store, path, _encode(task), value.version)

    async def remove(self, ledger_id: int) -> None:
        """Remove the task of a ledger that is complete or deleted. Safe to repeat."""
        await idempotent_writes.discard(self._store, self._todo(ledger_id))

    async def finish(self, ledger_id: int) -> None:
        """Remove a task and release its lock, in one transaction. Safe to repeat."""
        try:
            await self._store.txn([Delete(self._todo(ledger_id)), Delete(self._lock(ledger_id))])
        except (NoNodeError, IndeterminateError):  # one of them is gone, or both may be
            await self.remove(ledger_id)
            await self.unlock(ledger_id)

    async def get(self, ledger_id: int) -> RepairTask | None:
        """Return the task of a ledger, or None."""
        value = await idempotent_writes.read_if_exists(self._store, self._todo(ledger_id))
        return None if value is None else _decode(ledger_id, value.data)

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return a page of ledgers that have tasks, in ascending order."""
        return await self._children("todo", after, limit)

    async def without_task(self, ledger_ids: Sequence[int]) -> list[int]:
        """Return those of some ledgers, in ascending order, that have no task.

        It lists the tasks between the first and the last one.
        """
        first, last = ledger_ids[0], ledger_ids[-1]
        known: dict[int, None] = {}
        page = await self.ids(first - 1 if first else None)
        while page:
            known.update(dict.fromkeys(page))
            page = await self.ids(page[-1]) if page[-1] < last else []
        return [ledger_id for ledger_id in ledger_ids if ledger_id not in known]

    async def locked_ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return a page of ledgers that are locked, in ascending order."""
        return await self._children("locks", after, limit)

    async def _children(self, folder: str, after: int | None, limit: int) -> list[int]:
        start = None if after is None else _name(after)
        try:
            names = await self._store.children(f"{self._root}/{folder}", after=start, limit=limit)
        except NoNodeError:
            return []
        return [int(name) for name in names]

    async def all(self) -> list[RepairTask]:
        """Return every task, by ledger."""
        found: list[RepairTask] = []
        after: int | None = None
        while page := await self.ids(after):
            found.extend([task for id_ in page if (task := await self.get(id_)) is not None])
            after = page[-1]
        return found

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when tasks were added, changed or removed."""
        return self._store.watch(f"{self._root}/todo", callback, prefix=True)

    # --- locks and election ---------------------------------------------------------------------

    async def try_lock(self, session: Session, ledger_id: int, owner: str) -> bool:
        """Lock a ledger for this session; False while another session holds the lock."""
        return await self._take(self._lock(ledger_id), session, owner)

    async def unlock(self, ledger_id: int) -> None:
        """Release the lock. Safe to repeat."""
        await idempotent_writes.discard(self._store, self._lock(ledger_id))

    async def try_elect(self, session: Session, owner: str) -> bool:
        """Become the auditor for the duration of this session; False while another one is."""
        return await self._take(f"{self._root}/auditor", session, owner)

    async def auditor(self) -> str | None:
        """Return the id of the present auditor, or None."""
        value = await idempotent_writes.read_if_exists(self._store, f"{self._root}/auditor")
        return None if value is None else value.data.decode()

    def watch_auditor(self, callback: Callable[[], None]) -> Watch:
        """Call back when the auditor changed."""
        return self._store.watch(f"{self._root}/auditor", callback)

    async def _take(self, path: str, session: Session, owner: str) -> bool:
        """Create an ephemeral node. ``owner`` is unique to the session, so a lost reply is
        resolved."""
        try:
            await self._store.create(path, owner.encode(), ephemeral=session)
        except (NodeExistsError, IndeterminateError):
            value = await idempotent_writes.read_if_exists(self._store, path)
            return value is not None and value.data == owner.encode()
        return True

    def _todo(self, ledger_id: int) -> str:
        return f"{self._root}/todo/{_name(ledger_id)}"

    def _lock(self, ledger_id: int) -> str:
        return f"{self._root}/locks/{_name(ledger_id)}"


def _name(ledger_id: int) -> str:
    return f"{ledger_id:019d}"


def _encode(task: RepairTask) -> bytes:
    return json.dumps(fields_to_store(task), separators=(",", ":")).encode()


def _decode(ledger_id: int, data: bytes) -> RepairTask:
    try:
        return RepairTask(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise CorruptionError(f"repair task of ledger {ledger_id}: {data[:80]!r}") from error
