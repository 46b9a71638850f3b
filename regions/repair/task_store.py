"""What is to be repaired, in the metadata store: found by the auditor, taken by workers.

::

    <root>/rhumbline/repair/auditor            who audits (ephemeral)
    <root>/rhumbline/repair/todo/<ledger>      Task
    <root>/rhumbline/repair/locks/<ledger>     who mends it now (ephemeral)
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    NodeExistsError,
    NoNodeError,
)
from ...core.runtime.metadata_store import MetadataStore, Session, Watch

_TEXT_MAX = 500


@dataclass(frozen=True, slots=True)
class RepairTask:
    """A ledger to be mended. ``stuck``: why the last attempt did not get through; "": none did."""

    ledger_id: int
    why: str
    since_ms: int
    stuck: str = ""
    is_hopeless: bool = False
    """Whether the last attempt found entries without any copy."""


class TaskStore:
    """All tasks of a cluster."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._root = f"{root}/rhumbline/repair"

    # --- tasks ----------------------------------------------------------------------------------

    async def want(self, ledger_id: int, why: str, now_ms: int) -> bool:
        """Asks for a ledger to be mended; False when somebody already has. Safe to repeat."""
        task = RepairTask(ledger_id, why[:_TEXT_MAX], now_ms)
        try:
            await idempotent_writes.create(self._store, self._todo(ledger_id), _encode(task))
        except NodeExistsError:
            return False
        return True

    async def stick(self, ledger_id: int, reason: str, *, is_hopeless: bool) -> None:
        """Records why a task is not done. Safe to repeat."""
        path = self._todo(ledger_id)
        value = await idempotent_writes.look(self._store, path)
        if value is None:
            return
        known = _decode(ledger_id, value.data)
        task = RepairTask(ledger_id, known.why, known.since_ms, reason[:_TEXT_MAX], is_hopeless)
        if task != known:
            with suppress(BadVersionError, NoNodeError):
                await idempotent_writes.put(self._store, path, _encode(task), value.version)

    async def done(self, ledger_id: int) -> None:
        """The ledger is whole, or gone. Safe to repeat."""
        with suppress(NoNodeError):
            await idempotent_writes.delete(self._store, self._todo(ledger_id))

    async def get(self, ledger_id: int) -> RepairTask | None:
        """The task of a ledger, if there is one."""
        value = await idempotent_writes.look(self._store, self._todo(ledger_id))
        return None if value is None else _decode(ledger_id, value.data)

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Ledgers to be mended, rising: a page."""
        start = None if after is None else _name(after)
        try:
            names = await self._store.children(f"{self._root}/todo", after=start, limit=limit)
        except NoNodeError:
            return []
        return [int(name) for name in names]

    async def all(self) -> list[RepairTask]:
        """Every task, by ledger."""
        found: list[RepairTask] = []
        after: int | None = None
        while page := await self.ids(after):
            found.extend([task for one in page if (task := await self.get(one)) is not None])
            after = page[-1]
        return found

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Calls back when tasks came, changed or went."""
        return self._store.watch(f"{self._root}/todo", callback, prefix=True)

    # --- offices and locks ----------------------------------------------------------------------

    async def try_lock(self, session: Session, ledger_id: int, owner: str) -> bool:
        """Takes a ledger for this session; False while another one has it."""
        return await self._take(f"{self._root}/locks/{_name(ledger_id)}", session, owner)

    async def unlock(self, ledger_id: int) -> None:
        """Gives it back. Safe to repeat."""
        with suppress(NoNodeError):
            await idempotent_writes.delete(self._store, f"{self._root}/locks/{_name(ledger_id)}")

    async def try_elect(self, session: Session, owner: str) -> bool:
        """Becomes the auditor for this session's life; False while another one is."""
        return await self._take(f"{self._root}/auditor", session, owner)

    async def auditor(self) -> str | None:
        """Who audits now."""
        value = await idempotent_writes.look(self._store, f"{self._root}/auditor")
        return None if value is None else value.data.decode()

    def watch_auditor(self, callback: Callable[[], None]) -> Watch:
        """Calls back when the auditor came or went."""
        return self._store.watch(f"{self._root}/auditor", callback)

    async def _take(self, path: str, session: Session, owner: str) -> bool:
        """``owner`` is unique to the session: so a lost reply can be found out."""
        try:
            await self._store.create(path, owner.encode(), ephemeral=session)
        except (NodeExistsError, IndeterminateError):
            value = await idempotent_writes.look(self._store, path)
            return value is not None and value.data == owner.encode()
        return True

    def _todo(self, ledger_id: int) -> str:
        return f"{self._root}/todo/{_name(ledger_id)}"


def _name(ledger_id: int) -> str:
    return f"{ledger_id:019d}"


def _encode(task: RepairTask) -> bytes:
    return json.dumps(asdict(task), separators=(",", ":")).encode()


def _decode(ledger_id: int, data: bytes) -> RepairTask:
    try:
        return RepairTask(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise CorruptionError(f"repair task of ledger {ledger_id}: {data[:80]!r}") from error
