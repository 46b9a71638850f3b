"""The archive service: archives the completed segments of all streams periodically.

Any number of services may run. Segments are archived in order, so a service claims a stream with
an ephemeral node before it archives the stream's segments. The claim only avoids duplicate work;
two archivers of the same segment are safe (rule STR-22). If a stream fails, the service continues
with the other streams and retries the failed one in the next pass. Archived segments stay archived.

::

    /rhumbline/archiving/<namespace>/<stream>     the service that archives the stream (ephemeral)
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.metadata import idempotent_writes
from ...core.protocol.dlsn import STREAM_ID_CHARACTERS
from ...core.protocol.errors import (
    ConfigurationError,
    IndeterminateError,
    InvalidArgumentError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    RhumblineError,
    SessionLostError,
)
from ...core.protocol.segments import Residence, Segment
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import MetadataStore, Session
from ...core.runtime.runtime import Runtime
from .archive_folder import ArchiveFolder
from .catalog import archived_lssns
from .segment_archiver import SegmentArchiver

_LOG = EventLog(__name__)

_TOKEN_BYTES = 8


@dataclass(frozen=True, slots=True)
class ArchiveServiceConfig:
    """Settings of the archive service. Raises ConfigurationError for a value below 1."""

    pause_ms: int = 10_000
    """Pause between two passes over all streams."""
    session_ttl_ms: int = 10_000
    """Time to live of the session that holds the claims. Then another service may take over."""

    def __post_init__(self) -> None:
        for name in ("pause_ms", "session_ttl_ms"):
            if (value := getattr(self, name)) < 1:
                raise ConfigurationError(f"archive service: {name} {value} is below 1 ms")


@dataclass(slots=True)
class ArchivePass:
    """The result of one pass over all streams."""

    archived: int = 0
    """Number of segments that were archived."""
    retired: int = 0
    """Number of segments whose ledger was deleted because the archive has them."""
    purged: int = 0
    """Number of truncated segments that were deleted permanently."""
    expired: int = 0
    """Number of purged segments whose archive was deleted."""
    waiting: int = 0
    """Number of completed segments that have no archive yet."""
    oldest_ms: int | None = None
    """When the oldest of them was completed (Unix time in milliseconds); None if there is none."""
    faults: dict[str, str] = field(default_factory=dict)
    """Error message by stream; the key "" stands for the service itself."""

    def note_waiting(self, segments: Iterable[Segment]) -> None:
        """Count completed segments that have no archive yet."""
        for segment in segments:
            self.waiting += 1
            self.oldest_ms = min(self.oldest_ms or segment.completed_ms, segment.completed_ms)


@dataclass(slots=True)
class ArchiveCounts:
    """Counters for metrics, since the start."""

    passes: int = 0
    archived: int = 0
    retired: int = 0
    purged: int = 0
    expired: int = 0
    failures: int = 0
    """Streams for which a pass failed, and passes that failed as a whole."""

    def add(self, done: ArchivePass) -> None:
        """Add the result of a pass."""
        self.passes += 1
        self.archived += done.archived
        self.retired += done.retired
        self.purged += done.purged
        self.expired += done.expired
        self.failures += len(done.faults)


class ArchiveService:
    """Archives, retires and purges the segments of one namespace."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        namespace: Namespace,
        archiver: SegmentArchiver,
        *,
        config: ArchiveServiceConfig | None = None,
        on_pass: Callable[[ArchivePass], None] | None = None,
    ) -> None:
        self.counts = ArchiveCounts()
        self._last = ArchivePass()
        self._clock = runtime.clock
        self._store = store
        self._namespace = namespace
        self._archiver = archiver
        self._config = config or ArchiveServiceConfig()
        self._on_pass = on_pass
        self._log_limit = LogLimit()
        self._token = f"archiver-{runtime.random_bytes(_TOKEN_BYTES).hex()}".encode()

    def statistics(self) -> dict[str, Any]:
        """Return counters for metrics.

        ``behind_ms`` is the age of the oldest completed segment that the last complete pass found
        without an archive; it also rises while passes fail.
        """
        oldest_ms = self._last.oldest_ms
        behind_ms = 0 if oldest_ms is None else max(0, self._clock.wall_ms() - oldest_ms)
        waiting = self._last.waiting
        return {**asdict(self.counts), "waiting_segments": waiting, "behind_ms": behind_ms}

    async def run(self) -> None:
        """Run passes until cancelled. Report errors of the stores, and retry after the pause."""
        while True:
            result = ArchivePass()
            try:
                session = await self._store.session(self._config.session_ttl_ms)
                try:
                    while not session.is_lost:
                        result = await self.run_once(session)
                        self._last = result
                        self._report(result)
                        await asyncio.sleep(self._config.pause_ms / 1000)
                finally:
                    with suppress(RhumblineError):
                        await session.close()
            except RhumblineError as error:
                self._report(ArchivePass(faults={"": str(error)}))
                await asyncio.sleep(self._config.pause_ms / 1000)

    async def run_once(self, session: Session) -> ArchivePass:
        """Run one pass over all streams. Raises the store's errors if listing streams fails."""
        result = ArchivePass()
        after: str | None = None
        while not session.is_lost:
            page = await self._namespace.streams(after=after, limit=LIST_LIMIT)
            for stream in page:
                try:
                    await self._process_stream(session, stream, result)
                except NoSuchStreamError as error:
                    if await self._exists(stream):  # another stream of this name
                        result.faults[stream] = str(error)
                except SessionLostError:
                    return result
                except RhumblineError as error:
                    result.faults[stream] = str(error)
            if len(page) < LIST_LIMIT:
                break
            after = page[-1]
        return result

    async def _process_stream(self, session: Session, stream: str, result: ArchivePass) -> None:
        waiting = deque(await _unarchived(self._namespace, stream))
        try:
            if waiting and await self._claim(session, stream):
                await self._archive(session, stream, waiting, result)
        finally:
            result.note_waiting(waiting)
        maintained = await self._namespace.maintain(stream)
        result.retired += len(maintained.retired)
        result.purged += len(maintained.purged)
        result.expired += len(maintained.expired)

    async def _exists(self, stream: str) -> bool:
        try:
            await self._namespace.describe(stream)
        except NoSuchStreamError:
            return False
        return True

    async def _archive(
        self, session: Session, stream: str, waiting: deque[Segment], result: ArchivePass
    ) -> None:
        """Archive the segments in order, and remove each from ``waiting`` when it is done."""
        try:
            while waiting and not session.is_lost:
                lssn = waiting[0].lssn
                await self._archiver.archive(stream, lssn)
                waiting.popleft()
                result.archived += 1
                _LOG.info("segment archived", **self._ids(stream), segment=lssn)
        finally:
            if not session.is_lost:
                with suppress(RhumblineError):
                    await idempotent_writes.delete(self._store, self._path(stream))

    async def _claim(self, session: Session, stream: str) -> bool:
        path = self._path(stream)
        try:
            await self._store.create(path, self._token, ephemeral=session)
        except (NodeExistsError, IndeterminateError):
            value = await idempotent_writes.read_if_exists(self._store, path)
            return value is not None and value.data == self._token
        except NoNodeError:
            return False
        return True

    def _path(self, stream: str) -> str:
        return f"/rhumbline/archiving/{self._namespace.name}/{stream}"

    def _ids(self, stream: str) -> dict[str, Any]:
        """Return the fields of log lines about a stream."""
        return {"namespace": self._namespace.name, "stream": stream}

    def _report(self, result: ArchivePass) -> None:
        self.counts.add(result)
        for stream, fault in result.faults.items():
            dropped = self._log_limit.admit(asyncio.get_running_loop().time(), stream)
            if dropped is not None:
                _LOG.warning(
                    "archiving failed", **self._ids(stream), error=fault, dropped=dropped or None
                )
        if self._on_pass is not None:
            self._on_pass(result)


async def check_archives_exist(
    namespace: Namespace, cold: ColdStore, streams: Iterable[str]
) -> None:
    """Check that ``cold`` holds the archives that the metadata of ``streams`` names.

    Raises InvalidArgumentError that names the first missing one, NoSuchStreamError, and the errors
    of the stores. Reads listings, not the archives themselves. Truncated segments may be missing.
    """
    missing: list[tuple[str, int]] = []
    for stream in streams:
        found = await namespace.describe(stream)
        archived = [
            segment.lssn
            for segment in found.segments
            if segment.residence is not Residence.HOT and segment.lssn >= found.start.lssn
        ]
        folder = ArchiveFolder(namespace.name, stream, found.identity[:STREAM_ID_CHARACTERS])
        held = await archived_lssns(cold, folder) if archived else []
        missing += [(stream, lssn) for lssn in archived if lssn not in held]
    if missing:
        stream, lssn = missing[0]
        raise InvalidArgumentError(
            f"{cold.uri} lacks {len(missing)} segments that were archived before, the first is "
            f"segment {lssn} of {namespace.name}/{stream}: give the cold store that holds them"
        )


async def unarchived_lssns(namespace: Namespace, stream: str) -> list[int]:
    """Return the LSSNs of completed segments without an archive, ascending.

    Raises NoSuchStreamError.
    """
    return [segment.lssn for segment in await _unarchived(namespace, stream)]


async def _unarchived(namespace: Namespace, stream: str) -> list[Segment]:
    return [
        segment
        for segment in (await namespace.describe(stream)).segments
        if segment.is_completed and segment.residence is Residence.HOT
    ]
