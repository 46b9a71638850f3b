"""Applies a changed R of the policy to the ledgers that a process is writing (rule PLC-12).

R (``min_regions_for_durability``) is the only part of a policy's quorum that an open ledger can
take over; the other numbers take effect at the next segment.

Bound: after a policy was stored, a writer of the process requests the new R within ``REREAD_MS``,
one read of the metadata store, and 1/``READS_PER_SECOND`` s for each other policy that is read
before. If the watch event is lost, a writer that cannot acknowledge reads its policy again within
the same time, and any other one within ``REREAD_ALL_MS``.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..core.ledger.client import LedgerClient
from ..core.ledger.write.ledger_writer import LedgerWriter
from ..core.log.metadata.ledger_policies import namespace_policy, own_policies, stream_of_ledger
from ..core.log.metadata.paths import StreamPaths, namespace_path
from ..core.log.policy import StreamPolicy
from ..core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NoSuchStreamError,
    RhumblineError,
)
from ..core.runtime.metadata_store import MetadataStore, Watch
from ..core.runtime.primitives.slices import slices
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.tasks import Tasks
from .states import REREAD_MS

REREAD_ALL_MS = 300_000
"""Time after which the policy of a stream is read again without any hint."""
READS_PER_SECOND = 500
"""Rate at which the policies of the streams that a process writes are read: those of 100,000 in
less than ``REREAD_ALL_MS``."""

_BATCH_COUNT = 50
"""Policies that one request reads."""
_SLICE_COUNT = 200
"""Writers that are looked at before the event loop serves others: about a millisecond."""


Stream = tuple[str, str]
"""Namespace and name of a stream."""
Writers = dict[Stream, list[LedgerWriter]]


@dataclass(slots=True)
class _Followed:
    """The policy of a stream or of a namespace, as far as it was read."""

    watch: Watch
    wanted_r: int | None = None
    """None: not read yet, or that of the namespace."""
    read_at: float | None = None
    is_hinted: bool = False


class PolicyFollower:
    """Watches the policies of the streams that ``client`` writes. Close it before the client."""

    def __init__(self, store: MetadataStore, client: LedgerClient) -> None:
        self._store = store
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._wakeup = Wakeup()
        self._namespaces: dict[str, _Followed] = {}
        self._streams: dict[Stream, _Followed] = {}
        self._tasks = Tasks()
        self._tasks.spawn(self._run(), "follow policies")

    async def aclose(self) -> None:
        """Stop following. Safe to repeat."""
        await self._tasks.aclose()
        for followed in (*self._streams.values(), *self._namespaces.values()):
            followed.watch.close()

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait(REREAD_MS / 1000)
            try:
                await self._apply(await self._follow_writers())
            except RhumblineError:
                continue  # the store is unavailable: what was not read is read in the next pass

    # --- what is watched ------------------------------------------------------------------------

    async def _follow_writers(self) -> Writers:
        """Watch the streams that are written and their namespaces, and nothing else."""
        writers: Writers = defaultdict(list)
        async for some in slices(self._client.writers(), _SLICE_COUNT):
            for writer in some:
                stream = stream_of_ledger(writer.metadata)
                if stream is not None:
                    writers[stream].append(writer)
                    if stream not in self._streams:
                        self._follow(*stream)
        self._forget_others(writers)
        return writers

    def _follow(self, namespace: str, stream: str) -> None:
        """Watch a stream and its namespace."""
        if namespace not in self._namespaces:
            self._namespaces[namespace] = self._watch(namespace_path(namespace))
        path = StreamPaths(namespace, stream).stream
        self._streams[namespace, stream] = self._watch(path)

    def _forget_others(self, writers: Writers) -> None:
        """Stop watching streams that are no longer written, and namespaces without any."""
        if len(self._streams) == len(writers):
            return
        for stream in [known for known in self._streams if known not in writers]:
            self._streams.pop(stream).watch.close()
        used = {namespace for namespace, _ in writers}
        for namespace in [known for known in self._namespaces if known not in used]:
            self._namespaces.pop(namespace).watch.close()

    def _watch(self, path: str) -> _Followed:
        def on_hint() -> None:
            followed.is_hinted = True
            self._wakeup.wake()

        followed = _Followed(self._store.watch(path, on_hint))
        return followed

    # --- reading and applying -------------------------------------------------------------------

    async def _apply(self, writers: Writers) -> None:
        """Read the policies that are due and request their R. Raises MetadataUnavailableError."""
        items = list(writers.items())
        stalled = await _stalled(items)
        waiting = {namespace for namespace, _ in stalled}
        for namespace, followed in self._namespaces.items():
            if self._is_due(followed) or namespace in waiting:
                await self._read_namespace(namespace, followed)
        due = []
        async for some in slices(items, _SLICE_COUNT):
            for stream, of_stream in some:
                if stream in stalled or self._is_due(self._streams[stream]):
                    due.append(stream)
                else:
                    self._request(stream, of_stream)
        due.sort(key=lambda stream: stream not in stalled and not self._streams[stream].is_hinted)
        for first in range(0, len(due), _BATCH_COUNT):
            batch = due[first : first + _BATCH_COUNT]
            await self._read_streams(batch)
            for stream in batch:
                self._request(stream, writers[stream])
            if first + _BATCH_COUNT < len(due):
                await asyncio.sleep(_BATCH_COUNT / READS_PER_SECOND)

    def _is_due(self, followed: _Followed) -> bool:
        now = self._loop.time()
        is_old = followed.read_at is None or (now - followed.read_at) * 1000 > REREAD_ALL_MS
        return is_old or followed.is_hinted

    async def _read_namespace(self, namespace: str, followed: _Followed) -> None:
        with self._hints_taken([followed]):
            try:
                policy = await namespace_policy(self._store, namespace)
            except (NoSuchStreamError, InvalidArgumentError, CorruptionError):
                return  # deleted, or its record is damaged: its streams keep their R
        self._learn(followed, policy)

    async def _read_streams(self, streams: Sequence[Stream]) -> None:
        """Read the policies of streams in one request.

        The R of a stream that was deleted, or whose record is damaged, stays as it is.
        """
        with self._hints_taken([self._streams[stream] for stream in streams]):
            found = await own_policies(self._store, streams)
        for stream, policy in found.items():
            self._learn(self._streams[stream], policy)

    @contextmanager
    def _hints_taken(self, read: Sequence[_Followed]) -> Iterator[None]:
        """Clear the hints before a read, and set them again if the store is unavailable.

        A hint during the read causes another read.
        """
        for followed in read:
            followed.is_hinted = False
        try:
            yield
        except RhumblineError:
            for followed in read:
                followed.is_hinted = True
            raise

    def _learn(self, followed: _Followed, policy: StreamPolicy | None) -> None:
        followed.wanted_r = None if policy is None else policy.quorum.min_regions
        followed.read_at = self._loop.time()

    def _request(self, stream: Stream, writers: list[LedgerWriter]) -> None:
        own, shared = self._streams[stream], self._namespaces[stream[0]]
        wanted = shared.wanted_r if own.wanted_r is None else own.wanted_r
        if wanted is None or own.read_at is None:
            return
        for writer in writers:
            if not writer.is_failed:
                writer.set_min_regions(writer.metadata.possible_r(wanted))


async def _stalled(writers: Sequence[tuple[Stream, list[LedgerWriter]]]) -> set[Stream]:
    """Return the streams with a writer that cannot acknowledge entries."""
    found: set[Stream] = set()
    async for some in slices(writers, _SLICE_COUNT):
        for stream, of_stream in some:
            if any(w.view.must_change_ensemble(w.state.failed_mask) for w in of_stream):
                found.add(stream)
    return found
