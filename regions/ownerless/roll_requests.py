"""Requests that the writer of a ledger moves to another ledger, and the writer's answers (RPR-22).

A process that wants a ledger to end, because bookies of it are lost or drained or because an
operator says so, cannot know whether the ledger's writer is alive. It leaves a request in the
metadata store. Every process follows the requests and rolls its own writers; one that cannot roll
answers why, every few seconds while that lasts. A writer that does neither is gone or suspended.

::

    <root>/rhumbline/rolls/<ledger>      RollRequest
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.protocol.errors import BadVersionError, CorruptionError, NodeExistsError, NoNodeError
from ...core.protocol.metadata_record import fields_to_store
from ...core.runtime.metadata_store import MetadataStore, Watch

_TEXT_MAX = 500
_LISTED_MAX = 10_000
"""Maximum number of requests that are followed at once; the others follow when these are done."""


@dataclass(frozen=True, slots=True)
class RollRequest:
    """The request that the writer of a ledger moves to another ledger."""

    ledger_id: int
    why: str
    since_ms: int
    """Time of day in ms."""
    answers: int = 0
    """Number of answers of the writer. It rises while the writer is alive and the ledger open."""
    answer: str = ""
    """The writer's last answer, which says what it does; "" if it has not answered."""


class RollRequests:
    """All requests in one metadata store."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._root = f"{root}/rhumbline/rolls"

    async def add(self, ledger_id: int, why: str, now_ms: int) -> RollRequest:
        """Request a roll, and return the request that is stored now. Safe to repeat.

        Raises MetadataUnavailableError, IndeterminateError, CorruptionError.
        """
        request = RollRequest(ledger_id, why[:_TEXT_MAX], now_ms)
        with suppress(NodeExistsError):
            await idempotent_writes.create(self._store, self._path(ledger_id), _encode(request))
        return await self.get(ledger_id) or request

    async def get(self, ledger_id: int) -> RollRequest | None:
        """Return the request for a ledger, or None."""
        value = await idempotent_writes.read_if_exists(self._store, self._path(ledger_id))
        return None if value is None else _decode(ledger_id, value.data)

    async def ledger_ids(self) -> list[int]:
        """Return the ledgers with a request in ascending order, at most 10,000."""
        try:
            names = await self._store.children(self._root, limit=_LISTED_MAX)
        except NoNodeError:
            return []
        return [int(name) for name in names]

    async def answer(self, ledger_id: int, text: str) -> None:
        """Answer a request as the writer of its ledger. Without effect if it was withdrawn."""
        value = await idempotent_writes.read_if_exists(self._store, self._path(ledger_id))
        if value is None:
            return
        found = _decode(ledger_id, value.data)
        answered = replace(found, answers=found.answers + 1, answer=text[:_TEXT_MAX])
        with suppress(BadVersionError, NoNodeError):
            path = self._path(ledger_id)
            await idempotent_writes.put(self._store, path, _encode(answered), value.version)

    async def withdraw(self, ledger_id: int) -> None:
        """Remove a request: the ledger is closed. Safe to repeat."""
        await idempotent_writes.discard(self._store, self._path(ledger_id))

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when requests were added, answered or removed. This is a hint."""
        return self._store.watch(self._root, callback, prefix=True)

    def _path(self, ledger_id: int) -> str:
        return f"{self._root}/{ledger_id:019d}"


def _encode(request: RollRequest) -> bytes:
    return json.dumps(fields_to_store(request), separators=(",", ":")).encode()


def _decode(ledger_id: int, data: bytes) -> RollRequest:
    try:
        return RollRequest(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise CorruptionError(f"roll request of ledger {ledger_id}: {data[:80]!r}") from error
