"""The rebalance request of an operator, and the progress of its execution (rule RPR-19).

::

    <root>/rhumbline/rebalance/order       RebalanceOrder, changed by compare-and-set
    <root>/rhumbline/rebalance/progress    RebalanceProgress, written by the elected process
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT
from ...core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    InvalidArgumentError,
    NodeExistsError,
)
from ...core.protocol.metadata_record import (
    decode_metadata_record,
    encode_metadata_record,
    fields_to_store,
)
from ...core.runtime.metadata_store import MetadataStore, Watch

_FORMAT = 1
_ORDER = {
    "status": str,
    "bytes_per_second": int,
    "tolerance_percent": int,
    "ordered_ms": int,
}
_PROGRESS = {
    "ordered_ms": int,
    "moved_copies": int,
    "moved_bytes": int,
    "left_copies": int,
    "left_bytes": int,
    "failed_moves": int,
    "last_error": str,
}


class RebalanceStatus(Enum):
    """The state of the order."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class RebalanceOrder:
    """The order of an operator. The time at which it was given identifies it."""

    status: RebalanceStatus
    bytes_per_second: int
    tolerance_percent: int
    ordered_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceProgress:
    """The work that was done for the order that was given at ``ordered_ms``."""

    ordered_ms: int
    moved_copies: int = 0
    moved_bytes: int = 0
    left_copies: int = 0
    """Copies that the present round still has to move."""
    left_bytes: int = 0
    failed_moves: int = 0
    last_error: str = ""


class OrderStore:
    """The order and the progress in the metadata store."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._order = f"{root}/rhumbline/rebalance/order"
        self._progress = f"{root}/rhumbline/rebalance/progress"

    async def read(self) -> RebalanceOrder | None:
        """Return the order; None if there is none. Raises CorruptionError, ForeignDataError."""
        value = await idempotent_writes.read_if_exists(self._store, self._order)
        return None if value is None else _decode_order(value.data)

    async def order(self, order: RebalanceOrder) -> None:
        """Give an order, or replace the one before. Safe to repeat."""
        await self._replace(self._order, _encode(order))

    async def change(
        self, before: RebalanceStatus, after: RebalanceStatus, ordered_ms: int | None = None
    ) -> RebalanceOrder:
        """Change the status and return the order. Safe to repeat.

        With ``ordered_ms`` only the order of that time is changed. Raises InvalidArgumentError if
        there is no such order with the status ``before`` or ``after``, and BadVersionError if it
        changed meanwhile.
        """
        value = await idempotent_writes.read_if_exists(self._store, self._order)
        found = None if value is None else _decode_order(value.data)
        if value is None or found is None or found.status not in (before, after):
            status = "there is none" if found is None else f"it is {found.status.value}"
            raise InvalidArgumentError(f"no rebalancing is {before.value}: {status}")
        if found.status is after or ordered_ms not in (None, found.ordered_ms):
            return found
        changed = replace(found, status=after)
        await idempotent_writes.put(self._store, self._order, _encode(changed), value.version)
        return changed

    async def remove(self) -> None:
        """Withdraw the order and forget its progress. Safe to repeat."""
        await idempotent_writes.discard(self._store, self._order)
        await idempotent_writes.discard(self._store, self._progress)

    async def finish(self, ordered_ms: int) -> None:
        """Mark the order of that time as done, unless an operator changed it meanwhile."""
        with suppress(InvalidArgumentError, BadVersionError):
            await self.change(RebalanceStatus.RUNNING, RebalanceStatus.DONE, ordered_ms)

    async def read_progress(self) -> RebalanceProgress | None:
        """Return the progress; None if nothing was done yet.

        Raises CorruptionError, ForeignDataError.
        """
        value = await idempotent_writes.read_if_exists(self._store, self._progress)
        if value is None:
            return None
        fields = decode_metadata_record(
            "progress of rebalancing", value.data, version=_FORMAT, fields=_PROGRESS
        )
        return RebalanceProgress(**fields)

    async def write_progress(self, progress: RebalanceProgress) -> None:
        """Replace the progress. Safe to repeat."""
        await self._replace(
            self._progress, encode_metadata_record(_FORMAT, fields_to_store(progress, _PROGRESS))
        )

    async def _replace(self, path: str, data: bytes) -> None:
        with suppress(NodeExistsError):
            await idempotent_writes.create(self._store, path, data)
            return
        await self._store.put(path, data)

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when the order changed. This is a hint: read it again."""
        return self._store.watch(self._order, callback)


def _encode(order: RebalanceOrder) -> bytes:
    return encode_metadata_record(
        _FORMAT, {**fields_to_store(order, _ORDER), "status": order.status.value}
    )


def _decode_order(data: bytes) -> RebalanceOrder:
    fields = decode_metadata_record("order to rebalance", data, version=_FORMAT, fields=_ORDER)
    try:
        return RebalanceOrder(**{**fields, "status": RebalanceStatus(fields["status"])})
    except ValueError as error:
        raise CorruptionError(f"order to rebalance: unknown status {fields['status']!r}") from error
