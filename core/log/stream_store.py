"""Streams in the metadata store: every change a compare-and-set whose lost reply is resolved.

Resolving needs no log of requests: each value that is written names its writer (a token, an
identity, a ledger), so whoever does not know whether its write was carried out reads again and
compares. A write that is still on its way then is harmless: it says the same thing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    NotEmptyError,
    StreamExistsError,
    StreamLostError,
)
from ..protocol.segments import Segment, decode_segment, encode_segment
from ..runtime.metadata_store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Operation,
    Put,
    Version,
    Watch,
)
from .layout import StreamPaths, page_start, streams_path
from .records import StreamHead, StreamRecord

_CONTENTION_MAX = 64


@dataclass(frozen=True, slots=True)
class Claim:
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
        """Makes a stream. Raises StreamExistsError, MetadataUnavailableError.

        ``record.identity`` settles a lost reply. A repeat with the same record is safe.
        """
        paths = self.paths(stream)
        operations = [
            Create(paths.stream, record.encode()),
            Create(paths.head, StreamHead().encode()),
        ]
        for _ in range(_CONTENTION_MAX):
            try:
                await self._store.txn(operations)
            except IndeterminateError:
                pass  # read below whether it was carried out
            except NodeExistsError:
                pass
            else:
                return
            try:
                found = (await self.record(stream))[0]
            except NoSuchStreamError:
                continue
            if found.identity == record.identity:
                return
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

    async def update(
        self, stream: str, change: Callable[[StreamRecord], StreamRecord]
    ) -> StreamRecord:
        """Applies ``change`` (which may be called again on a newer record). A repeat is safe if
        ``change`` is. Raises NoSuchStreamError, MetadataUnavailableError."""
        for _ in range(_CONTENTION_MAX):
            before, version = await self.record(stream)
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

    async def claim(self, stream: str, token: str) -> Claim:
        """Takes the right to write, from whoever has it. ``token`` must be new.

        Raises NoSuchStreamError, MetadataUnavailableError. A repeat with the token is safe as long
        as nobody else has claimed since.
        """
        for _ in range(_CONTENTION_MAX):
            head, version = await self.head(stream)
            if head.token == token:
                return Claim(stream, head, version)
            claimed = head.claimed(token)
            try:
                version = await self._store.put(
                    self.paths(stream).head, claimed.encode(), expect=version
                )
            except (BadVersionError, IndeterminateError):
                continue
            except NoNodeError as error:
                raise self._missing(stream) from error
            return Claim(stream, claimed, version)
        raise MetadataUnavailableError(f"stream {stream}: claimed by others all the time")

    async def publish(self, claim: Claim, segment: Segment) -> tuple[Claim, StoredSegment]:
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
        for _ in range(_CONTENTION_MAX):
            try:
                versions = await self._store.txn(operations)
            except (BadVersionError, NodeExistsError, NoNodeError, IndeterminateError) as error:
                is_unknown = isinstance(error, IndeterminateError)
            else:
                assert versions[0] is not None
                assert versions[1] is not None
                return (
                    Claim(claim.stream, head, versions[0]),
                    StoredSegment(segment, versions[1]),
                )
            current, version = await self._head_of_claim(claim)
            if current == head:
                stored = await self.segment(claim.stream, segment.lssn)
                if stored is not None and stored.segment.ledger_id == segment.ledger_id:
                    return Claim(claim.stream, current, version), stored
            if current != claim.head or not is_unknown:
                raise self._lost(claim, current)
        raise MetadataUnavailableError(f"stream {claim.stream}: no answer to a publication")

    async def complete(self, claim: Claim, stored: StoredSegment, done: Segment) -> StoredSegment:
        """Writes the end of a segment. Raises StreamLostError, MetadataUnavailableError.

        A repeat is safe.
        """
        assert done.is_completed
        path = self.paths(claim.stream).segment(done.lssn)
        head_path = self.paths(claim.stream).head
        for _ in range(_CONTENTION_MAX):
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

    async def remove_segment(self, stream: str, lssn: int) -> None:
        """Removes a segment's node. A repeat is safe."""
        await self._remove(self.paths(stream).segment(lssn))

    async def segment_numbers(self, stream: str) -> list[int]:
        """The LSSNs that have a node, in order."""
        try:
            names = await self._store.children(self.paths(stream).segments)
        except NoNodeError:
            return []
        return [int(name) for name in names]

    # --- deletion -------------------------------------------------------------------------------

    async def remove_nodes(self, stream: str) -> None:
        """Removes what is left of a stream whose segments are gone. A repeat is safe."""
        paths = self.paths(stream)
        for path in await self._below(paths.subscriptions):
            await self._remove(path)
        for _ in range(_CONTENTION_MAX):
            for path in (paths.subscriptions, paths.segments):
                await self._remove(path)
            try:
                # One transaction, so that nobody sees a stream without its head.
                await self._store.txn([Delete(paths.head), Delete(paths.stream)])
            except NoNodeError:
                return
            except IndeterminateError:
                continue
            return
        raise MetadataUnavailableError(f"stream {stream}: no answer to its deletion")

    async def _below(self, path: str) -> Sequence[str]:
        try:
            return [f"{path}/{name}" for name in await self._store.children(path)]
        except NoNodeError:
            return []

    async def _remove(self, path: str) -> None:
        for _ in range(_CONTENTION_MAX):
            try:
                await self._store.delete(path)
            except IndeterminateError:
                continue
            except (NoNodeError, NotEmptyError):
                return
            return
        raise MetadataUnavailableError(f"{path}: no answer to a deletion")

    # --- errors ---------------------------------------------------------------------------------

    async def _head_of_claim(self, claim: Claim) -> tuple[StreamHead, Version]:
        try:
            return await self.head(claim.stream)
        except NoSuchStreamError as error:
            raise StreamLostError(f"stream {claim.stream} was deleted") from error

    def _missing(self, stream: str) -> NoSuchStreamError:
        return NoSuchStreamError(f"no stream {stream} in namespace {self.namespace}")

    def _lost(self, claim: Claim, current: StreamHead) -> StreamLostError:
        return StreamLostError(
            f"stream {claim.stream}: claim {claim.head.epoch} was followed by claim "
            f"{current.epoch} of another writer"
        )
