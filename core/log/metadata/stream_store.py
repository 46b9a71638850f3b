"""Streams in the metadata store: every change a compare-and-set whose lost reply is resolved.

Resolving needs no log of requests: each value that is written names its writer (a token, an
identity, a ledger), so whoever does not know whether its write was carried out reads again and
compares. A write that is still on its way then is harmless: it names the version that it changes,
and versions never come back, also not with another stream of the same name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    StreamExistsError,
    StreamLostError,
)
from ...protocol.segments import Segment, decode_segment, encode_segment
from ...runtime.metadata_store import (
    Check,
    Create,
    MetadataStore,
    Operation,
    Put,
    Value,
    Version,
    Watch,
)
from .paths import StreamPaths, namespace_path, page_start, streams_path
from .stream_metadata import StreamHead, StreamRecord

CONTENTION_MAX = 64
"""How often a change is tried that others overtake or the store does not answer."""


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """The right to write a stream, as long as its head is exactly this."""

    stream: str
    head: StreamHead
    version: Version


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment and the version of its node."""

    segment: Segment
    version: Version


class StreamStore:
    """The streams of one namespace."""

    def __init__(self, store: MetadataStore, namespace: str) -> None:
        self._store = store
        self.namespace = namespace

    def paths(self, stream: str) -> StreamPaths:
        """The nodes of a stream. Raises InvalidArgumentError for a bad name."""
        return StreamPaths(self.namespace, stream)

    # --- streams --------------------------------------------------------------------------------

    async def create(self, stream: str, record: StreamRecord) -> None:
        """Makes a stream. Raises StreamExistsError, NoSuchNamespaceError, MetadataUnavailableError.

        ``record.identity`` settles a lost reply. A repeat with the same record is safe.

        A request that is lost may arrive when the stream, made by the next one, was deleted again,
        or its namespace. So each names the namespace's version, and that changes before another
        follows one in doubt, or anything is said of it but that the stream is made.
        """
        paths, namespace = self.paths(stream), namespace_path(self.namespace)
        doubtful: Version | None = None
        creations = [
            Create(paths.stream, record.encode()),
            Create(paths.head, StreamHead().encode()),
        ]
        for _ in range(CONTENTION_MAX):
            data, version = await self._namespace()
            try:
                if version == doubtful:
                    await self._store.put(namespace, data, expect=version)
                    continue
                await self._store.txn([Check(namespace, version), *creations])
            except IndeterminateError:
                doubtful = version  # read below whether it was carried out
            except (BadVersionError, NodeExistsError, NoNodeError):
                pass
            else:
                return
            try:
                found = (await self.record(stream))[0]
            except NoSuchStreamError:
                continue
            if found.identity == record.identity:
                return
            if version == doubtful:
                continue
            text = " and is being deleted" if found.is_deleting else ""
            raise StreamExistsError(f"stream {stream} exists already{text}")
        raise MetadataUnavailableError(f"stream {stream}: created and deleted again and again")

    async def record(self, stream: str) -> tuple[StreamRecord, Version]:
        """What administrators say of it. Raises NoSuchStreamError, MetadataUnavailableError."""
        try:
            value = await self._store.get(self.paths(stream).stream)
        except NoNodeError as error:
            raise self._missing(stream) from error
        return StreamRecord.decode(stream, value.data), value.version

    async def _namespace(self) -> Value:
        try:
            return await self._store.get(namespace_path(self.namespace))
        except NoNodeError as error:
            raise NoSuchNamespaceError(f"no namespace {self.namespace}; create it first") from error

    async def update(
        self,
        stream: str,
        change: Callable[[StreamRecord], StreamRecord],
        *,
        identity: str | None = None,
    ) -> StreamRecord:
        """Applies ``change`` (which may be called again on a newer record). A repeat is safe if
        ``change`` is.

        ``identity``: of the stream that is meant; None: the one that is found first. Another one
        of the same name is never changed. Raises NoSuchStreamError, also when it is being deleted;
        MetadataUnavailableError.
        """
        for _ in range(CONTENTION_MAX):
            before, version = await self.record(stream)
            identity = identity or before.identity
            if before.identity != identity:
                raise self._missing(stream)
            if before.is_deleting:
                raise being_deleted(stream)
            after = change(before)
            if after == before:
                return before
            try:
                await self._store.put(self.paths(stream).stream, after.encode(), expect=version)
            except (BadVersionError, IndeterminateError):
                continue
            except NoNodeError as error:
                raise self._missing(stream) from error
            return after
        raise MetadataUnavailableError(f"stream {stream}: its record changes all the time")

    async def check(self, stream: str, identity: str) -> StreamRecord:
        """The record of the stream of that identity: what was read of it since it was known is its
        own, and not of another one of its name. Raises NoSuchStreamError when it is gone."""
        record, _ = await self.record(stream)
        if record.identity != identity:
            raise self._missing(stream)
        return record

    async def names(self, prefix: str, after: str | None, limit: int) -> list[str]:
        """A page of names that begin with ``prefix``, in order, from behind ``after``."""
        try:
            found = await self._store.children(
                streams_path(self.namespace), after=page_start(prefix, after), limit=limit
            )
        except NoNodeError:
            return []
        return [name for name in found if name.startswith(prefix)]

    def watch(self, stream: str, callback: Callable[[], None]) -> Watch:
        """Calls back after the head changed: a claim, a new segment, a deletion. A hint only."""
        return self._store.watch(self.paths(stream).head, callback)

    # --- segments -------------------------------------------------------------------------------

    async def head(self, stream: str) -> tuple[StreamHead, Version]:
        """Who writes and how far. Raises NoSuchStreamError, MetadataUnavailableError."""
        try:
            value = await self._store.get(self.paths(stream).head)
        except NoNodeError as error:
            raise self._missing(stream) from error
        return StreamHead.decode(stream, value.data), value.version

    async def segment(self, stream: str, lssn: int) -> StoredSegment | None:
        """One segment; None if it is not there (not yet, or purged)."""
        try:
            value = await self._store.get(self.paths(stream).segment(lssn))
        except NoNodeError:
            return None
        return StoredSegment(decode_segment(lssn, value.data), value.version)

    async def claim(self, stream: str, token: str) -> WriterClaim:
        """Takes the right to write, from whoever has it. ``token`` must be new.

        Raises NoSuchStreamError, also when it is being deleted; MetadataUnavailableError. A repeat
        with the token is safe as long as nobody else has claimed since.
        """
        for _ in range(CONTENTION_MAX):
            head, version = await self.head(stream)
            if head.token == token:
                return WriterClaim(stream, head, version)
            if head.is_deleting:
                raise being_deleted(stream)
            claimed = head.claimed(token)
            try:
                version = await self._store.put(
                    self.paths(stream).head, claimed.encode(), expect=version
                )
            except (BadVersionError, IndeterminateError):
                continue
            except NoNodeError as error:
                raise self._missing(stream) from error
            return WriterClaim(stream, claimed, version)
        raise MetadataUnavailableError(f"stream {stream}: claimed by others all the time")

    async def publish(
        self, claim: WriterClaim, segment: Segment
    ) -> tuple[WriterClaim, StoredSegment]:
        """Adds the next segment. Raises StreamLostError, MetadataUnavailableError.

        After IndeterminateError was resolved or not (MetadataUnavailableError), repeat it with the
        *same* segment: a number is never offered to two ledgers.
        """
        head = claim.head.extended()
        assert segment.lssn == head.last_lssn
        assert segment.epoch == head.epoch
        paths = self.paths(claim.stream)
        operations: list[Operation] = [
            Put(paths.head, head.encode(), expect=claim.version),
            Create(paths.segment(segment.lssn), encode_segment(segment)),
        ]
        for _ in range(CONTENTION_MAX):
            try:
                versions = await self._store.txn(operations)
            except (BadVersionError, NodeExistsError, NoNodeError, IndeterminateError) as error:
                is_unknown = isinstance(error, IndeterminateError)
            else:
                assert versions[0] is not None
                assert versions[1] is not None
                return (
                    WriterClaim(claim.stream, head, versions[0]),
                    StoredSegment(segment, versions[1]),
                )
            current, version = await self._head_of_claim(claim)
            if current == head:
                stored = await self.segment(claim.stream, segment.lssn)
                if stored is not None and stored.segment.ledger_id == segment.ledger_id:
                    return WriterClaim(claim.stream, current, version), stored
            if current != claim.head or not is_unknown:
                raise self._lost(claim, current)
        raise MetadataUnavailableError(f"stream {claim.stream}: no answer to a publication")

    async def complete(
        self, claim: WriterClaim, stored: StoredSegment, done: Segment
    ) -> StoredSegment:
        """Writes the end of a segment. Raises StreamLostError, MetadataUnavailableError.

        A repeat is safe.
        """
        assert done.is_completed
        path = self.paths(claim.stream).segment(done.lssn)
        head_path = self.paths(claim.stream).head
        for _ in range(CONTENTION_MAX):
            operations: list[Operation] = [
                Check(head_path, claim.version),
                Put(path, encode_segment(done), expect=stored.version),
            ]
            try:
                versions = await self._store.txn(operations)
            except (BadVersionError, NoNodeError, IndeterminateError):
                pass  # look below at what is there
            else:
                assert versions[1] is not None
                return StoredSegment(done, versions[1])
            found = await self.segment(claim.stream, done.lssn)
            if found is not None and found.segment == done:
                return found
            current, version = await self._head_of_claim(claim)
            if current != claim.head or found is None or found.segment != stored.segment:
                raise self._lost(claim, current)
            claim, stored = replace(claim, version=version), found
        raise MetadataUnavailableError(f"stream {claim.stream}: no answer to a completion")

    async def replace_segment(self, stream: str, stored: StoredSegment, new: Segment) -> bool:
        """Changes a completed segment (its residence). False if somebody else changed it."""
        assert stored.segment.is_completed
        path = self.paths(stream).segment(new.lssn)
        try:
            await self._store.put(path, encode_segment(new), expect=stored.version)
        except (BadVersionError, NoNodeError):
            return False
        except IndeterminateError:
            found = await self.segment(stream, new.lssn)
            return found is not None and found.segment == new
        return True

    async def remove_segment(self, stream: str, stored: StoredSegment) -> None:
        """Removes the node of that segment, unless it is gone or changed. A repeat is safe."""
        path = self.paths(stream).segment(stored.segment.lssn)
        for _ in range(CONTENTION_MAX):
            try:
                await self._store.delete(path, expect=stored.version)
            except IndeterminateError:
                continue
            except (NoNodeError, BadVersionError):
                return
            return
        raise MetadataUnavailableError(f"{path}: no answer to a deletion")

    async def segment_numbers(self, stream: str) -> list[int]:
        """The LSSNs that have a node, in order."""
        try:
            names = await self._store.children(self.paths(stream).segments)
        except NoNodeError:
            return []
        return [int(name) for name in names]

    # --- errors ---------------------------------------------------------------------------------

    async def _head_of_claim(self, claim: WriterClaim) -> tuple[StreamHead, Version]:
        try:
            return await self.head(claim.stream)
        except NoSuchStreamError as error:
            raise StreamLostError(f"stream {claim.stream} was deleted") from error

    def _missing(self, stream: str) -> NoSuchStreamError:
        return NoSuchStreamError(f"no stream {stream} in namespace {self.namespace}")

    def _lost(self, claim: WriterClaim, current: StreamHead) -> StreamLostError:
        if current.is_deleting:
            return StreamLostError(f"stream {claim.stream} is being deleted")
        return StreamLostError(
            f"stream {claim.stream}: claim {claim.head.epoch} was followed by claim "
            f"{current.epoch} of another writer"
        )


def being_deleted(stream: str) -> NoSuchStreamError:
    """What is raised for a stream that is half deleted, or half restored."""
    return NoSuchStreamError(f"stream {stream} is being deleted")
