"""Deletes a stream with all of its ledgers, but never another stream of the same name.

A deletion may stop at any point and be repeated, several processes may delete the same stream, and
their requests may arrive after the stream was deleted and another was created under its name
(rule STR-23). The deletion therefore begins with one transaction that marks the record and takes
over the head. After it, nobody changes either of them, claims the stream or adds segments. The
version of the marked record identifies the deletion: every later request is conditional on it, and
has no effect once the record is deleted.

Then the ledgers of the segments in progress are fenced, so that no append is acknowledged any more
by a writer that does not know of the deletion (rule STR-31). Nothing is deleted before that.

Nodes are deleted bottom-up: the ledger of a segment before its node, and record and head last, in
one transaction. Until then the name is taken, and a repeat finds everything that is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...protocol.errors import (
    BadVersionError,
    DeletionPendingError,
    IndeterminateError,
    MetadataUnavailableError,
    NoNodeError,
    NoSuchLedgerError,
    NoSuchStreamError,
    UnavailableError,
)
from ...runtime.metadata_store import Check, Delete, MetadataStore, Operation, Put, Version
from ..ledger_interface import LedgerProvider, delete_ledger
from .namespace_record import moving_error
from .stream_reads import StoredSegment
from .stream_store import CONTENTION_MAX, StreamStore


@dataclass(frozen=True, slots=True)
class _MarkedStream:
    """A stream whose record is marked for deletion, with the version of that record."""

    identity: str
    stream_id: str
    version: Version


class StreamDeletion:
    """The deletion of one stream. It may run concurrently with others; a repeat continues it."""

    def __init__(self, store: MetadataStore, streams: StreamStore, stream: str) -> None:
        self._store = store
        self._streams = streams
        self._stream = stream
        self._paths = streams.paths(stream)

    async def run(self, ledgers: LedgerProvider, identity: str | None) -> None:
        """Delete the stream. Return when it no longer exists, whichever process finished that.

        ``identity`` selects the stream to delete; None selects the one that has the name now.
        Raises NoSuchStreamError if it did not exist at the start, DeletionPendingError if a ledger
        cannot be fenced now, and the errors of the stores.
        """
        marked = await self._begin(identity)
        try:
            await self._fence_segments(marked, ledgers)
            await self._remove_segments(marked, ledgers)
            await self._remove_subscriptions(marked)
            await self._remove(marked, self._paths.schemas)
            # One transaction, so that no process sees a stream without its head.
            last = [Delete(self._paths.head), Delete(self._paths.stream, marked.version)]
            await self._commit(marked, last)
        except NoSuchStreamError:
            return  # another process finished the deletion

    async def _begin(self, identity: str | None) -> _MarkedStream:
        """Mark the record and take over the head from its claimant. Safe to repeat."""
        for _ in range(CONTENTION_MAX):
            record, version = await self._streams.record(self._stream)
            identity = identity or record.identity
            if record.identity != identity:
                raise NoSuchStreamError(f"stream {self._stream} now names another stream")
            if record.is_moving:
                raise moving_error(self._streams.namespace)
            head, head_version = await self._streams.head(self._stream)
            if record.is_deleting and head.is_deleting:
                return _MarkedStream(identity, record.stream_id, version)
            marked = replace(record, is_deleting=True)
            operations: list[Operation] = [
                Put(self._paths.stream, marked.encode(), expect=version),
                Put(self._paths.head, head.deleted().encode(), expect=head_version),
            ]
            try:
                versions = await self._store.txn(operations)
            except (BadVersionError, NoNodeError, IndeterminateError):
                continue
            assert versions[0] is not None
            return _MarkedStream(identity, record.stream_id, versions[0])
        raise MetadataUnavailableError(
            f"stream {self._stream}: not marked for deletion in {CONTENTION_MAX} attempts, "
            "because other processes changed it"
        )

    async def _fence_segments(self, marked: _MarkedStream, ledgers: LedgerProvider) -> None:
        """Fence the ledgers of the segments in progress, which are the newest ones (STR-31).

        The head has been taken over, so no further segment is published.
        """
        for lssn in reversed(await self._streams.segment_numbers(self._stream)):
            stored = await self._segment(marked, lssn)
            if stored is None:
                continue  # another process is deleting the segments: all are fenced
            if stored.segment.is_completed:
                return
            ledger_id = stored.segment.ledger_id
            try:
                await ledgers.fence(ledger_id)
            except NoSuchLedgerError:
                continue  # likewise
            except (UnavailableError, IndeterminateError) as error:
                raise DeletionPendingError(
                    f"stream {self._stream} is marked for deletion, but nothing is deleted yet: "
                    f"ledger {ledger_id} of its writer cannot be fenced: {error}; repeat the "
                    "deletion"
                ) from error

    async def _remove_segments(self, marked: _MarkedStream, ledgers: LedgerProvider) -> None:
        for lssn in await self._streams.segment_numbers(self._stream):
            stored = await self._segment(marked, lssn)
            if stored is not None:
                await delete_ledger(ledgers, stored.segment)
                await self._remove(marked, self._paths.segment(lssn))
        await self._remove(marked, self._paths.segments)

    async def _remove_subscriptions(self, marked: _MarkedStream) -> None:
        try:
            names = await self._store.children(self._paths.subscriptions)
        except NoNodeError:
            return
        for name in names:
            await self._remove(marked, self._paths.subscription(name))
        await self._remove(marked, self._paths.subscriptions)

    async def _segment(self, marked: _MarkedStream, lssn: int) -> StoredSegment | None:
        """Read a segment of the marked stream. Raises as ``_check``.

        A restored stream has the identity of the deleted one, but another version of the record.
        """
        stored = await self._streams.segment(self._stream, lssn, marked.stream_id)
        await self._check(marked)
        return stored

    async def _check(self, marked: _MarkedStream) -> None:
        """Verify that the stream still exists and is marked by this deletion.

        Raises NoSuchStreamError if it no longer exists, and MetadataUnavailableError if its record
        has another version, because the store was migrated.
        """
        record, version = await self._streams.record(self._stream)
        if record.identity != marked.identity:
            raise NoSuchStreamError(f"stream {self._stream} now names another stream")
        if version != marked.version:
            raise MetadataUnavailableError(
                f"stream {self._stream}: its record changed during the deletion; repeat it"
            )

    async def _remove(self, marked: _MarkedStream, path: str) -> None:
        await self._commit(marked, [Check(self._paths.stream, marked.version), Delete(path)])

    async def _commit(self, marked: _MarkedStream, removal: Sequence[Operation]) -> None:
        """Remove nodes of the marked stream that still exist. Safe to repeat."""
        for _ in range(CONTENTION_MAX):
            try:
                await self._store.txn(removal)
            except IndeterminateError:
                continue
            except NoNodeError:
                return
            except BadVersionError:
                await self._check(marked)
                continue
            return
        raise MetadataUnavailableError(
            f"stream {self._stream}: deletion not confirmed after {CONTENTION_MAX} attempts"
        )
