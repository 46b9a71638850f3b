"""The archiver as a service: looks at all streams now and then, and archives what is completed.

Any number may run: a stream that has something to do is claimed by an ephemeral node, since its
segments are archived in order. A claim saves work, it protects nothing: two archivers of one
segment cannot harm each other. A stream that fails does not hold up the others and is tried again
in the next pass; what was archived stays archived.

::

    /rhumbline/archiving/<namespace>/<stream>     who archives it now (ephemeral)
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.metadata import idempotent_writes
from ...core.protocol.errors import (
    ConfigurationError,
    IndeterminateError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    RhumblineError,
    SessionLostError,
)
from ...core.protocol.segments import Residence
from ...core.runtime.metadata_store import MetadataStore, Session
from ...core.runtime.runtime import Runtime
from .segment_archiver import SegmentArchiver

_TOKEN_BYTES = 8


@dataclass(frozen=True, slots=True)
class ArchiveServiceConfig:
    """Settings of the service. Raises ConfigurationError."""

    pause_ms: int = 10_000
    """Between two looks at all streams."""
    session_ttl_ms: int = 10_000
    """After this silence another archiver takes over."""

    def __post_init__(self) -> None:
        if min(self.pause_ms, self.session_ttl_ms) < 1:
            raise ConfigurationError("archive service: times must be above 0")


@dataclass(slots=True)
class Pass:
    """What one look at all streams did."""

    archived: int = 0
    """Segments."""
    retired: int = 0
    """Segments whose ledger went."""
    purged: int = 0
    """Segments that are gone."""
    faults: dict[str, str] = field(default_factory=dict)
    """Stream -> what went wrong."""


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
        on_pass: Callable[[Pass], None] | None = None,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._archiver = archiver
        self._config = config or ArchiveServiceConfig()
        self._on_pass = on_pass
        self._token = f"archiver-{runtime.random_bytes(_TOKEN_BYTES).hex()}".encode()

    async def run(self) -> None:
        """Works until it is cancelled. What the stores raise is reported and tried again."""
        while True:
            done = Pass()
            try:
                session = await self._store.session(self._config.session_ttl_ms)
                try:
                    while not session.is_lost:
                        done = await self.once(session)
                        self._report(done)
                        await asyncio.sleep(self._config.pause_ms / 1000)
                finally:
                    with suppress(RhumblineError):
                        await session.close()
            except RhumblineError as error:
                self._report(Pass(faults={"": str(error)}))
                await asyncio.sleep(self._config.pause_ms / 1000)

    async def once(self, session: Session) -> Pass:
        """One look at all streams. Raises what the store raises when it lists them."""
        done = Pass()
        after: str | None = None
        while not session.is_lost:
            page = await self._namespace.streams(after=after, limit=LIST_LIMIT)
            for stream in page:
                try:
                    await self._look_at(session, stream, done)
                except NoSuchStreamError:
                    continue  # deleted meanwhile
                except SessionLostError:
                    return done
                except RhumblineError as error:
                    done.faults[stream] = str(error)
            if len(page) < LIST_LIMIT:
                break
            after = page[-1]
        return done

    async def _look_at(self, session: Session, stream: str, done: Pass) -> None:
        waiting = await unarchived(self._namespace, stream)
        if waiting and await self._claim(session, stream):
            try:
                for lssn in waiting:
                    if session.is_lost:
                        return
                    await self._archiver.archive(stream, lssn)
                    done.archived += 1
            finally:
                if not session.is_lost:
                    with suppress(RhumblineError):
                        await idempotent_writes.delete(self._store, self._path(stream))
        maintained = await self._namespace.maintain(stream)
        done.retired += len(maintained.retired)
        done.purged += len(maintained.purged)

    async def _claim(self, session: Session, stream: str) -> bool:
        path = self._path(stream)
        try:
            await self._store.create(path, self._token, ephemeral=session)
        except (NodeExistsError, IndeterminateError):
            value = await idempotent_writes.look(self._store, path)
            return value is not None and value.data == self._token
        except NoNodeError:
            return False
        return True

    def _path(self, stream: str) -> str:
        return f"/rhumbline/archiving/{self._namespace.name}/{stream}"

    def _report(self, done: Pass) -> None:
        if self._on_pass is not None:
            self._on_pass(done)


async def unarchived(namespace: Namespace, stream: str) -> list[int]:
    """The completed segments that have no archive yet, in order. Raises NoSuchStreamError."""
    return [
        segment.lssn
        for segment in (await namespace.describe(stream)).segments
        if segment.is_completed and segment.residence is Residence.HOT
    ]
