"""Reads the metadata of streams; it has no method that changes anything.

Readers of streams use it with ``stale_ok``: they may then see old metadata (rules STR-28 and
STR-30). Callers that conclude anything from what is missing, or from the end of a stream, read it
again through ``confirmed``. Callers also name the stream that they mean by its id, since another
one may have had its name before, or may have it now: a node of that one is never returned (rule
STR-35).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from ...metadata.read_only_store import StaleValue
from ...protocol.errors import (
    MetadataUnavailableError,
    NoNodeError,
    NoSuchNamespaceError,
    NoSuchStreamError,
)
from ...protocol.segments import FIRST_LSSN, Segment, decode_segment
from ...runtime.metadata_store import MetadataReads, Value, Version, Watch
from ..policy import StreamPolicy
from .namespace_record import NamespaceRecord
from .paths import StreamPaths, namespace_path, page_start, streams_path
from .stream_metadata import StreamHead, StreamRecord

NODES_PER_READ_MAX = 64
"""Maximum number of nodes that one request reads."""


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment with the version of its node."""

    segment: Segment
    version: Version


@dataclass(frozen=True, slots=True)
class SegmentView:
    """A segment, the one before it and the record of their stream, read together."""

    record: StreamRecord
    segment: Segment | None
    """None if it does not exist."""
    previous: Segment | None
    """None if it does not exist, or if that is not known."""


@dataclass(frozen=True, slots=True)
class StreamNodes:
    """The whole metadata of a stream. Only record and head were read together."""

    record: StreamRecord
    head: StreamHead
    segments: tuple[Segment, ...]
    age_ms: int | None
    """None if all of it was current; else the greatest age of a part that may be old."""


class StreamReads:
    """The streams of one namespace, for reading. ``stale_ok`` permits old metadata."""

    def __init__(self, reads: MetadataReads, namespace: str, *, stale_ok: bool = False) -> None:
        self.namespace = namespace
        self._reads = reads
        self._stale_ok = stale_ok

    @property
    def is_confirmed(self) -> bool:
        """True if everything that is returned was current when it was read."""
        return not self._stale_ok

    @cached_property
    def confirmed(self) -> "StreamReads":
        """The same streams, with current metadata only."""
        return StreamReads(self._reads, self.namespace) if self._stale_ok else self

    def paths(self, stream: str) -> StreamPaths:
        """Return the paths of a stream. Raises InvalidArgumentError for an invalid name."""
        return StreamPaths(self.namespace, stream)

    async def record(
        self, stream: str, stream_id: str | None = None
    ) -> tuple[StreamRecord, Version]:
        """Read the record of the stream with ``stream_id``; None: of whichever has the name.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        try:
            value = await self._get(self.paths(stream).stream)
        except NoNodeError as error:
            raise self._missing_error(stream) from error
        return self._record_in(stream, stream_id, value), value.version

    async def record_and_age(self, stream: str) -> tuple[StreamRecord, int | None]:
        """Read the record and its age in milliseconds; None if it is current.

        Raises as ``record``.
        """
        try:
            value = await self._get(self.paths(stream).stream)
        except NoNodeError as error:
            raise self._missing_error(stream) from error
        age_ms = value.age_ms if isinstance(value, StaleValue) else None
        return StreamRecord.decode(stream, value.data), age_ms

    async def head(self, stream: str, stream_id: str | None = None) -> tuple[StreamHead, Version]:
        """Read the head of the stream with ``stream_id``; None: of whichever has the name.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        try:
            value = await self._get(self.paths(stream).head)
        except NoNodeError as error:
            raise self._missing_error(stream) from error
        head = StreamHead.decode(stream, value.data)
        self._check_origin(stream, value, head.stream_id, stream_id)
        return head, value.version

    async def segment(self, stream: str, lssn: int, stream_id: str) -> StoredSegment | None:
        """Read a segment of the stream with ``stream_id``; None if it is not there yet or purged.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        try:
            value = await self._get(self.paths(stream).segment(lssn))
        except NoNodeError:
            return None
        return StoredSegment(self._segment_in(stream, lssn, stream_id, value), value.version)

    async def segment_view(self, stream: str, lssn: int, stream_id: str) -> SegmentView:
        """Read a segment with its surroundings, in one request if all of it is known.

        The record is not older than the segments. Raises as ``record`` and ``segment``.
        """
        try:
            return await self._whole_view(stream, lssn, stream_id)
        except MetadataUnavailableError:
            if not self._stale_ok:
                raise
            return await self._known_view(stream, lssn, stream_id)

    async def _whole_view(self, stream: str, lssn: int, stream_id: str) -> SegmentView:
        """Read the view in one request."""
        paths = self.paths(stream)
        wanted = [lssn, lssn - 1] if lssn > FIRST_LSSN else [lssn]
        *values, value = await self._reads.get_all(
            [*map(paths.segment, wanted), paths.stream], stale_ok=self._stale_ok
        )
        if value is None:
            raise self._missing_error(stream)
        record = self._record_in(stream, stream_id, value)
        segments = [
            None if found is None else self._segment_in(stream, number, stream_id, found)
            for number, found in zip(wanted, values, strict=True)
        ]
        return SegmentView(record, segments[0], segments[1] if len(segments) > 1 else None)

    async def _known_view(self, stream: str, lssn: int, stream_id: str) -> SegmentView:
        """Read the same one by one, because some of it may not be known."""
        stored = await self.segment(stream, lssn, stream_id)
        record, _ = await self.record(stream, stream_id)
        try:
            before = await self.segment(stream, lssn - 1, stream_id) if lssn > FIRST_LSSN else None
        except MetadataUnavailableError:
            before = None
        return SegmentView(
            record,
            None if stored is None else stored.segment,
            None if before is None else before.segment,
        )

    async def everything(self, stream: str) -> StreamNodes:
        """Read all metadata of a stream. Raises NoSuchStreamError, MetadataUnavailableError.

        The segments follow after record and head, ``NODES_PER_READ_MAX`` with each request.
        """
        paths = self.paths(stream)
        values = await self._reads.get_all([paths.stream, paths.head], stale_ok=self._stale_ok)
        record_value, head_value = values
        if record_value is None or head_value is None:
            raise self._missing_error(stream)
        record = StreamRecord.decode(stream, record_value.data)
        head = StreamHead.decode(stream, head_value.data)
        self._check_origin(stream, head_value, head.stream_id, record.stream_id)
        segments: list[Segment] = []
        numbers = range(record.first_lssn, head.last_lssn + 1)
        for start in range(0, len(numbers), NODES_PER_READ_MAX):
            page = numbers[start : start + NODES_PER_READ_MAX]
            found, record_again = await self._segment_values(paths, page)
            values += [*found, record_again]
            for lssn, value in zip(page, found, strict=True):
                if value is not None:
                    with suppress(MetadataUnavailableError):  # what is known is of another stream
                        segments.append(self._segment_in(stream, lssn, record.stream_id, value))
        ages = [value.age_ms for value in values if isinstance(value, StaleValue)]
        return StreamNodes(record, head, tuple(segments), max(ages, default=None))

    async def _segment_values(
        self, paths: StreamPaths, numbers: Sequence[int]
    ) -> tuple[list[Value | None], Value | None]:
        """Read segments; with ``stale_ok`` None also if it is not known whether one exists.

        In that case the old record is returned too, because its age is that of what is not known.
        """
        wanted = [paths.segment(lssn) for lssn in numbers]
        try:
            return await self._reads.get_all(wanted, stale_ok=self._stale_ok), None
        except MetadataUnavailableError:
            if not self._stale_ok:
                raise
            known = [await self._value_if_known(path) for path in wanted]
            record = await self._get(paths.stream)
            if not isinstance(record, StaleValue):
                raise  # the store is in reach again, so that None would be taken for current
            return known, record

    async def _value_if_known(self, path: str) -> Value | None:
        try:
            return await self._get(path)
        except (NoNodeError, MetadataUnavailableError):
            return None

    async def check(self, stream: str, identity: str) -> StreamRecord:
        """Verify that the stream still has ``identity`` and is not being deleted.

        Returns its record. Raises NoSuchStreamError otherwise: if a deletion is interrupted, the
        record and some segments remain, although their ledgers are gone.
        """
        record, _ = await self.record(stream)
        if record.is_deleting or record.identity != identity:
            raise self._missing_error(stream)
        return record

    def _record_in(self, stream: str, stream_id: str | None, value: Value) -> StreamRecord:
        """Decode the record of the stream with ``stream_id``. Raises as ``_check_origin``."""
        record = StreamRecord.decode(stream, value.data)
        self._check_origin(stream, value, record.stream_id, stream_id)
        return record

    def _segment_in(self, stream: str, lssn: int, stream_id: str, value: Value) -> Segment:
        """Decode a segment of the stream with ``stream_id``. Raises as ``_check_origin``."""
        segment = decode_segment(lssn, value.data)
        self._check_origin(stream, value, segment.stream_id, stream_id)
        return segment

    def _check_origin(
        self, stream: str, value: Value, found_id: str, wanted_id: str | None
    ) -> None:
        """Raise if a node is of another stream than the one with ``wanted_id`` (rule STR-35).

        All nodes of a stream are deleted before the next stream of its name is created. So a
        current node of another stream is one of a later stream, and the wanted stream was deleted:
        NoSuchStreamError. An old one may be of an earlier stream, and then nothing is known about
        the wanted one: MetadataUnavailableError.
        """
        if wanted_id is None or found_id == wanted_id:
            return
        if isinstance(value, StaleValue):
            raise MetadataUnavailableError(
                f"stream {stream}: {self._reads.uri} is out of reach, and what this region has is "
                "of another stream of the same name"
            )
        raise self._missing_error(stream)

    async def policy_of(self, record: StreamRecord) -> StreamPolicy:
        """Return the policy of a stream, its own or that of the namespace."""
        if record.policy is not None:
            return record.policy
        namespace, _ = await self._namespace()
        return namespace.policy

    async def names(self, prefix: str, after: str | None, limit: int) -> list[str]:
        """Return a page of names that begin with ``prefix`` and follow ``after``, in order."""
        try:
            found = await self._reads.children(
                streams_path(self.namespace),
                after=page_start(prefix, after),
                limit=limit,
                stale_ok=self._stale_ok,
            )
        except NoNodeError:
            return []
        return [name for name in found if name.startswith(prefix)]

    async def segment_numbers(self, stream: str) -> list[int]:
        """Return the LSSNs that have a node, in order."""
        try:
            names = await self._reads.children(self.paths(stream).segments, stale_ok=self._stale_ok)
        except NoNodeError:
            return []
        return [int(name) for name in names]

    def watch(self, stream: str, callback: Callable[[], None]) -> Watch:
        """Call ``callback`` after a change of the head (claim, new segment, deletion).

        Calls may be lost, so they are only a hint.
        """
        return self._reads.watch(self.paths(stream).head, callback)

    async def _namespace(self) -> tuple[NamespaceRecord, Value]:
        """Return the namespace and its node in this store. Raises NoSuchNamespaceError."""
        try:
            value = await self._get(namespace_path(self.namespace))
        except NoNodeError:
            value = None
        return self._namespace_in(value)

    def _namespace_in(self, value: Value | None) -> tuple[NamespaceRecord, Value]:
        """Decode the node of the namespace. Raises NoSuchNamespaceError."""
        if value is None:
            raise NoSuchNamespaceError(f"no namespace {self.namespace}; create it first")
        return NamespaceRecord.decode(self.namespace, value.data), value

    async def _get(self, path: str) -> Value:
        return await self._reads.get(path, stale_ok=self._stale_ok)

    def _missing_error(self, stream: str) -> NoSuchStreamError:
        return NoSuchStreamError(f"no stream {stream} in namespace {self.namespace}")
