"""The store of streams: each change is a compare-and-set whose lost reply is resolved.

Each written value names its writer by a token, an identity or a ledger id. A caller whose write has
an unknown outcome therefore reads the node again and compares; no log of requests is needed
(rule STR-5). A request that is still in flight at that time is harmless: it is conditional on the
version that it replaces, and versions never repeat, not even for another stream of the same name.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from ...metadata import idempotent_writes
from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    StreamExistsError,
    StreamLostError,
    StreamSealedError,
)
from ...protocol.segments import NO_SEGMENT, Segment, encode_segment
from ...runtime.metadata_store import (
    Check,
    Create,
    MetadataStore,
    Operation,
    Put,
    Version,
)
from ..policy import StreamPolicy
from .namespace_record import moving_error
from .paths import namespace_path
from .stream_metadata import MOVE, StreamHead, StreamRecord
from .stream_reads import StoredSegment, StreamReads

CONTENTION_MAX = 64
"""Maximum attempts of a change: concurrent changes and lost replies require retries."""


class ClaimPurpose(Enum):
    """The reason for a claim, which decides about the seal of the stream (rule STR-33)."""

    WRITE = "write"  # refused if the stream is sealed
    CLOSE = "close"  # completes segments only; a seal stays
    SEAL = "seal"  # as CLOSE, and seals the stream


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """The right to write a stream. It is valid while the head is exactly ``head``.

    The claim of a stream without segments is stored together with its first segment
    (``claim_at_publication``).
    """

    stream: str
    head: StreamHead
    version: Version
    """The version of ``stored``."""
    replaces: StreamHead | None = None
    """The head that the first segment and this claim will replace; None: the claim is stored."""

    @property
    def stored(self) -> StreamHead:
        """The head in the metadata store, as far as this writer knows."""
        return self.head if self.replaces is None else self.replaces


class Completion(NamedTuple):
    """The end of a segment, which is to be recorded (rule STR-7)."""

    stored: StoredSegment
    """The segment in progress as it is stored."""
    done: Segment
    """The same segment, completed."""

    def put_at(self, path: str) -> Put:
        """Return the change of the segment's node."""
        assert self.done.is_completed
        return Put(path, encode_segment(self.done), expect=self.stored.version)


@dataclass(frozen=True, slots=True)
class CurrentStream:
    """The state of a stream before it is changed, read in one request."""

    record: StreamRecord
    policy: StreamPolicy
    """Its own policy, or that of the namespace."""
    head: StreamHead
    head_version: Version


class StreamStore(StreamReads):
    """The streams of one namespace, for writing. Its reads are always current."""

    def __init__(self, store: MetadataStore, namespace: str) -> None:
        super().__init__(store, namespace)
        self._store = store

    # --- streams --------------------------------------------------------------------------------

    async def current(self, stream: str) -> CurrentStream:
        """Read a stream that is to be changed. The head is not older than the record.

        Raises NoSuchStreamError, also if the stream is being deleted, NoSuchNamespaceError,
        NamespaceMovingError, MetadataUnavailableError.
        """
        paths = self.paths(stream)
        wanted = [paths.stream, namespace_path(self.namespace), paths.head]
        for _ in range(CONTENTION_MAX):
            record_value, namespace_value, head_value = await self._store.get_all(wanted)
            if record_value is None:
                raise self._missing_error(stream)
            record = StreamRecord.decode(stream, record_value.data)
            self.check_changeable(stream, record)
            if head_value is None:
                raise self._missing_error(stream)
            head = StreamHead.decode(stream, head_value.data)
            if head.stream_id == record.stream_id:
                policy = record.policy or self._namespace_in(namespace_value)[0].policy
                return CurrentStream(record, policy, head, head_value.version)
            # The stream was deleted and created again between the reads of its two nodes.
        raise MetadataUnavailableError(
            f"stream {stream}: record and head were of different streams {CONTENTION_MAX} times"
        )

    async def create(self, stream: str, record: StreamRecord) -> None:
        """Create a stream. Safe to repeat with the same record.

        Raises StreamExistsError, NoSuchNamespaceError, NamespaceMovingError,
        MetadataUnavailableError.

        After a lost reply, ``record.identity`` shows whether the stream was created. A lost request
        could still arrive after the stream or its namespace was deleted again. Each request is
        therefore conditional on the version of the namespace, and after an unknown outcome this
        version is changed before the next attempt or any error is raised (rule STR-23).
        """
        paths, namespace = self.paths(stream), namespace_path(self.namespace)
        doubtful: Version | None = None
        creations = [
            Create(paths.stream, record.encode()),
            Create(paths.head, StreamHead(stream_id=record.stream_id).encode()),
        ]
        for _ in range(CONTENTION_MAX):
            namespace_record, (data, version) = await self._namespace()
            namespace_record.check_in_force(self.namespace)
            try:
                if version == doubtful:
                    await self._store.put(namespace, data, expect=version)
                    continue
                await self._store.txn([Check(namespace, version), *creations])
            except IndeterminateError:
                doubtful = version  # the read below shows whether it was carried out
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
            raise StreamExistsError(f"stream {stream} already exists{text}")
        raise MetadataUnavailableError(
            f"stream {stream}: creation not confirmed after {CONTENTION_MAX} attempts"
        )

    async def update(
        self,
        stream: str,
        change: Callable[[StreamRecord], StreamRecord],
        *,
        identity: str | None = None,
    ) -> StreamRecord:
        """Apply ``change`` to the record and return the result. Safe to repeat if ``change`` is.

        ``change`` may be called several times, each time with a newer record. ``identity`` selects
        the stream; None selects the one that has the name now, and another stream of the same name
        is never changed. Raises NoSuchStreamError, also if the stream is being deleted, and
        MetadataUnavailableError.
        """
        for _ in range(CONTENTION_MAX):
            before, version = await self.record(stream)
            identity = identity or before.identity
            if before.identity != identity:
                raise self._missing_error(stream)
            self.check_changeable(stream, before)
            after = change(before)
            if after == before:
                return before
            try:
                await self._store.put(self.paths(stream).stream, after.encode(), expect=version)
            except (BadVersionError, IndeterminateError):
                continue
            except NoNodeError as error:
                raise self._missing_error(stream) from error
            return after
        raise MetadataUnavailableError(
            f"stream {stream}: record not changed in {CONTENTION_MAX} attempts, because other "
            "processes changed it"
        )

    def check_changeable(self, stream: str, record: StreamRecord) -> None:
        """Raise NoSuchStreamError or NamespaceMovingError if the stream must not change."""
        if record.is_deleting:
            raise being_deleted_error(stream)
        if record.is_moving:
            raise moving_error(self.namespace)

    # --- segments -------------------------------------------------------------------------------

    async def claim(
        self,
        stream: str,
        token: str,
        purpose: ClaimPurpose = ClaimPurpose.WRITE,
        *,
        expect: StreamHead | None = None,
        current: CurrentStream | None = None,
    ) -> WriterClaim:
        """Claim the right to write from its current holder (rule STR-2). ``token`` must be new.

        With ``expect`` only a stream with exactly this head is claimed. ``current`` saves a read
        unless it is out of date. Raises NoSuchStreamError, also if the stream is being deleted,
        NamespaceMovingError, StreamSealedError, StreamLostError (the head is not ``expect``, or the
        move has ended), and MetadataUnavailableError. A repeat with the same token is safe unless
        another writer has claimed the stream since.
        """
        found = None if current is None else (current.head, current.head_version)
        for _ in range(CONTENTION_MAX):
            head, version = found or await self.head(stream)
            found = None
            if head.token == token:
                return WriterClaim(stream, head, version)
            self._check_claimable(stream, head, purpose)
            if token == MOVE:
                raise StreamLostError(f"stream {stream}: the move of its namespace has ended")
            if expect is not None and head != expect:
                raise StreamLostError(f"stream {stream} was claimed or extended meanwhile")
            claimed = head.claimed(token)
            if purpose is ClaimPurpose.SEAL:
                claimed = replace(claimed, is_sealed=True)
            try:
                version = await self._store.put(
                    self.paths(stream).head, claimed.encode(), expect=version
                )
            except (BadVersionError, IndeterminateError):
                continue
            except NoNodeError as error:
                raise self._missing_error(stream) from error
            return WriterClaim(stream, claimed, version)
        raise MetadataUnavailableError(
            f"stream {stream}: not claimed in {CONTENTION_MAX} attempts, because other writers "
            "claimed it"
        )

    def claim_at_publication(self, stream: str, token: str, current: CurrentStream) -> WriterClaim:
        """Return a claim for writing that the publication of the first segment will store.

        ``current`` must have no segments: there is nothing to recover first, so that the claim
        need not be visible before (rule STR-2). ``publish`` raises StreamLostError if the stream
        was claimed meanwhile. Raises NoSuchStreamError, NamespaceMovingError, StreamSealedError.
        """
        head = current.head
        assert head.last_lssn == NO_SEGMENT
        self._check_claimable(stream, head, ClaimPurpose.WRITE)
        return WriterClaim(stream, head.claimed(token), current.head_version, head)

    def _check_claimable(self, stream: str, head: StreamHead, purpose: ClaimPurpose) -> None:
        """Check that the stream may be claimed for this purpose.

        Raises NoSuchStreamError, NamespaceMovingError, StreamSealedError.
        """
        if head.is_deleting:
            raise being_deleted_error(stream)
        if head.is_moving:
            raise moving_error(self.namespace)
        if head.is_sealed and purpose is ClaimPurpose.WRITE:
            raise sealed_error(stream)

    async def unseal(self, stream: str, token: str) -> bool:
        """Let writers claim a sealed stream again; False if it is not sealed. Safe to repeat.

        ``token`` must be new. Raises NoSuchStreamError, NamespaceMovingError,
        MetadataUnavailableError.
        """
        for _ in range(CONTENTION_MAX):
            head, version = await self.head(stream)
            self._check_claimable(stream, head, ClaimPurpose.CLOSE)
            if not head.is_sealed:
                return head.token == token
            unsealed = replace(head.claimed(token), is_sealed=False)
            try:
                await self._store.put(self.paths(stream).head, unsealed.encode(), expect=version)
            except (BadVersionError, IndeterminateError):
                continue
            except NoNodeError as error:
                raise self._missing_error(stream) from error
            return True
        raise MetadataUnavailableError(
            f"stream {stream}: not unsealed in {CONTENTION_MAX} attempts, because other processes "
            "claimed it"
        )

    async def publish(
        self, claim: WriterClaim, segment: Segment, completion: Completion | None = None
    ) -> tuple[WriterClaim, StoredSegment]:
        """Publish the next segment, and store the claim if that is still to be done.

        ``completion`` is that of the segment before it, which is then recorded at the same time.
        Raises StreamLostError, MetadataUnavailableError.

        After MetadataUnavailableError, repeat the call with the *same* segments, because a number
        must never be bound to two ledgers (rule STR-6).
        """
        head = claim.head.extended()
        assert segment.lssn == head.last_lssn
        assert segment.epoch == head.epoch
        assert segment.stream_id == head.stream_id, "a segment names its stream (rule STR-35)"
        paths = self.paths(claim.stream)
        operations: list[Operation] = [
            Put(paths.head, head.encode(), expect=claim.version),
            Create(paths.segment(segment.lssn), encode_segment(segment)),
        ]
        if completion is not None:
            assert completion.done.lssn == claim.head.last_lssn
            operations.append(completion.put_at(paths.segment(completion.done.lssn)))
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
                stored = await self._segment_of_claim(claim, segment.lssn)
                if stored is not None and stored.segment.ledger_id == segment.ledger_id:
                    return WriterClaim(claim.stream, head, version), stored
            if current != claim.stored or not is_unknown:
                raise self._lost_error(claim, current)
        raise MetadataUnavailableError(f"stream {claim.stream}: publication was not confirmed")

    async def complete(self, claim: WriterClaim, completion: Completion) -> StoredSegment:
        """Record the end of a segment (rule STR-7). Safe to repeat with the same values.

        Raises StreamLostError, MetadataUnavailableError.
        """
        assert claim.replaces is None
        stored, done = completion
        path = self.paths(claim.stream).segment(done.lssn)
        head_path = self.paths(claim.stream).head
        for _ in range(CONTENTION_MAX):
            operations: list[Operation] = [
                Check(head_path, claim.version),
                completion.put_at(path),
            ]
            try:
                versions = await self._store.txn(operations)
            except (BadVersionError, NoNodeError, IndeterminateError):
                pass  # the read below shows what is stored
            else:
                assert versions[1] is not None
                return StoredSegment(done, versions[1])
            found = await self._segment_of_claim(claim, done.lssn)
            if found is not None and found.segment == done:
                return found
            current, version = await self._head_of_claim(claim)
            if current != claim.head or found is None or found.segment != stored.segment:
                raise self._lost_error(claim, current)
            claim, completion = replace(claim, version=version), Completion(found, done)
        raise MetadataUnavailableError(f"stream {claim.stream}: completion was not confirmed")

    async def replace_segment(self, stream: str, stored: StoredSegment, new: Segment) -> bool:
        """Change the residence of a completed segment. Return False if it was changed meanwhile.

        Raises NoSuchStreamError, NamespaceMovingError, MetadataUnavailableError.
        """
        assert stored.segment.is_completed
        paths = self.paths(stream)
        record, version = await self.record(stream)
        if record.is_moving:
            raise moving_error(self.namespace)
        change = Put(paths.segment(new.lssn), encode_segment(new), expect=stored.version)
        try:
            await self._store.txn([Check(paths.stream, version), change])
        except (BadVersionError, NoNodeError):
            return False
        except IndeterminateError:
            found = await self.segment(stream, new.lssn, new.stream_id)
            return found is not None and found.segment == new
        return True

    async def remove_segment(self, stream: str, stored: StoredSegment) -> None:
        """Remove the node of a segment unless it changed or no longer exists. Safe to repeat."""
        path = self.paths(stream).segment(stored.segment.lssn)
        await idempotent_writes.discard(self._store, path, stored.version)

    # --- errors ---------------------------------------------------------------------------------

    async def _head_of_claim(self, claim: WriterClaim) -> tuple[StreamHead, Version]:
        try:
            return await self.head(claim.stream, claim.head.stream_id)
        except NoSuchStreamError as error:
            raise StreamLostError(f"stream {claim.stream} was deleted") from error

    async def _segment_of_claim(self, claim: WriterClaim, lssn: int) -> StoredSegment | None:
        try:
            return await self.segment(claim.stream, lssn, claim.head.stream_id)
        except NoSuchStreamError as error:
            raise StreamLostError(f"stream {claim.stream} was deleted") from error

    def _lost_error(self, claim: WriterClaim, current: StreamHead) -> StreamLostError:
        if current.is_deleting:
            return StreamLostError(f"stream {claim.stream} is being deleted")
        if current.is_moving:
            return StreamLostError(f"stream {claim.stream}: its namespace is being moved")
        return StreamLostError(
            f"stream {claim.stream}: another writer took over with claim {current.epoch} after "
            f"claim {claim.head.epoch} of this writer"
        )


def being_deleted_error(stream: str) -> NoSuchStreamError:
    """Return the error for a stream whose deletion or restore is incomplete."""
    return NoSuchStreamError(f"stream {stream} is being deleted")


def sealed_error(stream: str) -> StreamSealedError:
    """Return the error for a writer of a sealed stream."""
    return StreamSealedError(
        f"stream {stream} is sealed and accepts no records; `rhumbline stream unseal` ends this"
    )
