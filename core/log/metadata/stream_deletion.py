"""Deletes a stream with all of its ledgers, and never another stream that has its name by then.

A deletion may stop anywhere and be repeated, be made by several at once, and its requests may
arrive when the stream is long gone and another was made under its name. So it begins with one
transaction on the record and the head: from then on nobody changes either, claims the stream or
adds to it, and the version that the record has now stands for the deletion. Every later request
names that version, and finds nothing to do once the record is gone.

The nodes go bottom-up, the ledger of a segment before its node, and record and head last, together:
until then the name is taken, and a repeat finds all that is left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NoNodeError,
    NoSuchStreamError,
)
from ...runtime.metadata_store import Check, Delete, MetadataStore, Operation, Put, Version
from ..ledger_interface import LedgerProvider, delete_ledger
from .stream_store import CONTENTION_MAX, StreamStore


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A stream whose deletion has begun: until it is gone its record has this version."""

    identity: str
    version: Version


class StreamDeletion:
    """The deletion of one stream. Any number may run at once; a repeat goes on."""

    def __init__(self, store: MetadataStore, streams: StreamStore, stream: str) -> None:
        self._store = store
        self._streams = streams
        self._stream = stream
        self._paths = streams.paths(stream)

    async def run(self, ledgers: LedgerProvider, identity: str | None) -> None:
        """Returns when the stream is gone, whoever has finished that.

        ``identity``: of the stream that is meant; None: the one that is found first. Raises
        NoSuchStreamError when it was not there to begin with, and what the stores raise.
        """
        doomed = await self._begin(identity)
        try:
            await self._remove_segments(doomed, ledgers)
            await self._remove_subscriptions(doomed)
            # One transaction, so that nobody sees a stream without its head.
            last = [Delete(self._paths.head), Delete(self._paths.stream, doomed.version)]
            await self._commit(doomed, last)
        except NoSuchStreamError:
            return  # somebody else was faster

    async def _begin(self, identity: str | None) -> _Doomed:
        """Marks the record and takes the head from whoever has it. A repeat is safe."""
        for _ in range(CONTENTION_MAX):
            record, version = await self._streams.record(self._stream)
            identity = identity or record.identity
            if record.identity != identity:
                raise NoSuchStreamError(f"stream {self._stream} is another one by now")
            head, head_version = await self._streams.head(self._stream)
            if record.is_deleting and head.is_deleting:
                return _Doomed(identity, version)
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
            return _Doomed(identity, versions[0])
        raise MetadataUnavailableError(f"stream {self._stream} changes all the time")

    async def _remove_segments(self, doomed: _Doomed, ledgers: LedgerProvider) -> None:
        for lssn in await self._streams.segment_numbers(self._stream):
            stored = await self._streams.segment(self._stream, lssn)
            await self._check(doomed)  # so what was just read is of this stream
            if stored is not None:
                await delete_ledger(ledgers, stored.segment)
                await self._remove(doomed, self._paths.segment(lssn))
        await self._remove(doomed, self._paths.segments)

    async def _remove_subscriptions(self, doomed: _Doomed) -> None:
        try:
            names = await self._store.children(self._paths.subscriptions)
        except NoNodeError:
            return
        for name in names:
            await self._remove(doomed, self._paths.subscription(name))
        await self._remove(doomed, self._paths.subscriptions)

    async def _check(self, doomed: _Doomed) -> None:
        """Returns while the stream is there and doomed. Raises NoSuchStreamError when it is gone,
        MetadataUnavailableError when its record has another version (the store was migrated)."""
        record, version = await self._streams.record(self._stream)
        if record.identity != doomed.identity:
            raise NoSuchStreamError(f"stream {self._stream} is another one by now")
        if version != doomed.version:
            raise MetadataUnavailableError(
                f"stream {self._stream}: its record changed while it was deleted; repeat that"
            )

    async def _remove(self, doomed: _Doomed, path: str) -> None:
        await self._commit(doomed, [Check(self._paths.stream, doomed.version), Delete(path)])

    async def _commit(self, doomed: _Doomed, removal: Sequence[Operation]) -> None:
        """Removes nodes of the doomed stream, unless they are gone. A repeat is safe."""
        for _ in range(CONTENTION_MAX):
            try:
                await self._store.txn(removal)
            except IndeterminateError:
                continue
            except NoNodeError:
                return
            except BadVersionError:
                await self._check(doomed)
                continue
            return
        raise MetadataUnavailableError(f"stream {self._stream}: no answer to its deletion")
