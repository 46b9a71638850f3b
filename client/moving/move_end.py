"""One of the two metadata stores of a move, and the changes of a move in it (rule STR-34)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...backends.migration import MigrationError
from ...core.log.metadata.namespace_record import NamespaceRecord, NamespaceReservation
from ...core.log.metadata.paths import namespace_path
from ...core.metadata import idempotent_writes
from ...core.metadata.cluster_layout import ROOT, Paths
from ...core.protocol.bookie_id import Region
from ...core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ...core.runtime.metadata_store import Check, Delete, MetadataStore, Operation, Version

_ATTEMPTS = 16
_CONFLICTS = (BadVersionError, IndeterminateError, NodeExistsError, NoNodeError, NotEmptyError)

Plan = Callable[[], Awaitable[Sequence[Operation]]]
"""Function that reads nodes and returns what is left to change; nothing if all of it was done."""


Records = NamespaceRecord | NamespaceReservation
"""The record of a namespace in one of the stores."""


class StoredRecord(NamedTuple):
    """The record of a namespace with the version of its node."""

    record: Records
    version: Version


@dataclass(slots=True)
class MoveEnd:
    """A metadata store with its number, and the fence of an attempt in it.

    The fence is the record of the namespace, which names the attempt. Every change is conditional
    on it, so an attempt that was overtaken changes nothing.
    """

    store: MetadataStore
    number: int
    region: Region | None
    """The region whose store it is; None for the global store."""
    namespace: str
    paths: Paths = field(default_factory=lambda: Paths(ROOT))
    _fence: Check | None = None
    _mover: str = ""

    @property
    def name(self) -> str:
        """The name of the store in messages."""
        return "the global store" if self.region is None else f"the store of {self.region}"

    @property
    def path(self) -> str:
        """The path of the record of the namespace."""
        return namespace_path(self.namespace)

    async def read(self) -> StoredRecord | None:
        """Return the record of the namespace; None if there is none."""
        value = await idempotent_writes.read_if_exists(self.store, self.path)
        if value is None:
            return None
        reservation = NamespaceReservation.decode(self.namespace, value.data)
        record = reservation or NamespaceRecord.decode(self.namespace, value.data)
        return StoredRecord(record, value.version)

    async def claim(self, record: Records, version: Version | None) -> None:
        """Write the record with the state of this attempt, which is the fence from now on.

        ``version`` is that of the record before; None if there was none. Raises BadVersionError,
        NodeExistsError.
        """
        assert record.move is not None
        data = record.encode()
        if version is None:
            version = await idempotent_writes.create(self.store, self.path, data)
        else:
            version = await idempotent_writes.put(self.store, self.path, data, version)
        self._fence, self._mover = Check(self.path, version), record.move.mover

    async def guard(self, mover: str) -> None:
        """Make changes conditional on the record as it is now, which must name ``mover``.

        Raises MigrationError if it does not.
        """
        found = await self.read()
        if found is None or found.record.move is None or found.record.move.mover != mover:
            raise MigrationError(
                f"another attempt to move namespace {self.namespace} has taken over"
            )
        self._fence, self._mover = Check(self.path, found.version), mover

    async def change(self, plan: Plan) -> None:
        """Carry out what ``plan`` returns in one transaction, also if an outcome is unknown.

        Each operation must be conditional on what the plan has read. Raises MigrationError if
        another attempt has taken over, and MetadataUnavailableError.
        """
        for _ in range(_ATTEMPTS):
            operations = await plan()
            if not operations:
                return
            assert self._fence is not None, "the store was not claimed"
            try:
                await self.store.txn([self._fence, *operations])
            except _CONFLICTS:
                await self.guard(self._mover)
            else:
                return
        raise MetadataUnavailableError(
            f"{self.store.uri}: {operations[0].path} was not changed in {_ATTEMPTS} attempts"
        )

    async def remove(self, also: Sequence[Operation] = ()) -> None:
        """Delete the record, the fence of this attempt, and carry out ``also`` with it."""

        for _ in range(_ATTEMPTS):
            if await self.read() is None:
                return
            await self.guard(self._mover)
            assert self._fence is not None
            try:
                removal = Delete(self.path, expect=self._fence.version)
                await self.store.txn([removal, *also])
            except _CONFLICTS:
                continue
            return
        raise MetadataUnavailableError(f"{self.store.uri}: {self.path} was not deleted")
