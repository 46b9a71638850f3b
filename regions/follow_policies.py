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
from dataclasses import dataclass

from ..core.ledger.client import LedgerClient
from ..core.ledger.write.ledger_writer import LedgerWriter
from ..core.log.metadata.ledger_policies import namespace_policy, own_policy, stream_of_ledger
from ..core.log.metadata.paths import StreamPaths, namespace_path
from ..core.log.policy import StreamPolicy
from ..core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NoSuchStreamError,
    RhumblineError,
)
from ..core.runtime.metadata_store import MetadataStore, Watch
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.tasks import Tasks
from .states import REREAD_MS

REREAD_ALL_MS = 300_000
"""Time after which the policy of a stream is read again without any hint."""
READS_PER_SECOND = 200
"""Rate at which the policies of the streams that a process writes are read."""

_BATCH_COUNT = 20


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
        self._streams: dict[tuple[str, str], _Followed] = {}
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
            writers: dict[tuple[str, str], list[LedgerWriter]] = defaultdict(list)
            for writer in self._client.writers():
                stream = stream_of_ledger(writer.metadata)
                if stream is not None:
                    writers[stream].append(writer)
            try:
                self._follow_only(writers)
                await self._apply(writers)
            except RhumblineError:
                continue  # the store is unavailable: what was not read is read in the next pass

    # --- what is watched ------------------------------------------------------------------------

    def _follow_only(self, writers: dict[tuple[str, str], list[LedgerWriter]]) -> None:
        """Watch the streams that are written and their namespaces, and nothing else."""
        for stream in [known for known in self._streams if known not in writers]:
            self._streams.pop(stream).watch.close()
        used = dict.fromkeys(namespace for namespace, _ in writers)
        for namespace in [known for known in self._namespaces if known not in used]:
            self._namespaces.pop(namespace).watch.close()
        for namespace in used:
            if namespace not in self._namespaces:
                self._namespaces[namespace] = self._watch(namespace_path(namespace))
        for namespace, stream_name in writers:
            if (namespace, stream_name) not in self._streams:
                path = StreamPaths(namespace, stream_name).stream
                self._streams[namespace, stream_name] = self._watch(path)

    def _watch(self, path: str) -> _Followed:
        def on_hint() -> None:
            followed.is_hinted = True
            self._wakeup.wake()

        followed = _Followed(self._store.watch(path, on_hint))
        return followed

    # --- reading and applying -------------------------------------------------------------------

    async def _apply(self, writers: dict[tuple[str, str], list[LedgerWriter]]) -> None:
        """Read the policies that are due and request their R. Raises MetadataUnavailableError."""
        stalled = {
            stream: any(w.view.must_change_ensemble(w.state.failed_mask) for w in of_stream)
            for stream, of_stream in writers.items()
        }
        waiting = dict.fromkeys(namespace for (namespace, _), is_true in stalled.items() if is_true)
        for namespace, followed in self._namespaces.items():
            if self._is_due(followed) or namespace in waiting:
                await self._read(followed, namespace, None)
        due = []
        for stream, of_stream in writers.items():
            if stalled[stream] or self._is_due(self._streams[stream]):
                due.append(stream)
            else:
                self._request(stream, of_stream)
        due.sort(key=lambda stream: not (stalled[stream] or self._streams[stream].is_hinted))
        for first in range(0, len(due), _BATCH_COUNT):
            for stream in due[first : first + _BATCH_COUNT]:
                await self._read(self._streams[stream], *stream)
                self._request(stream, writers[stream])
            if first + _BATCH_COUNT < len(due):
                await asyncio.sleep(_BATCH_COUNT / READS_PER_SECOND)

    def _is_due(self, followed: _Followed) -> bool:
        now = self._loop.time()
        is_old = followed.read_at is None or (now - followed.read_at) * 1000 > REREAD_ALL_MS
        return is_old or followed.is_hinted

    async def _read(self, followed: _Followed, namespace: str, stream: str | None) -> None:
        followed.is_hinted = False  # a hint during the read causes another one
        policy: StreamPolicy | None
        try:
            if stream is None:
                policy = await namespace_policy(self._store, namespace)
            else:
                policy = await own_policy(self._store, namespace, stream)
        except (NoSuchStreamError, InvalidArgumentError, CorruptionError):
            return  # the stream was deleted, or its record is damaged: its R stays as it is
        except RhumblineError:
            followed.is_hinted = True
            raise
        followed.wanted_r = None if policy is None else policy.quorum.min_regions
        followed.read_at = self._loop.time()

    def _request(self, stream: tuple[str, str], writers: list[LedgerWriter]) -> None:
        own, shared = self._streams[stream], self._namespaces[stream[0]]
        wanted = shared.wanted_r if own.wanted_r is None else own.wanted_r
        if wanted is None or own.read_at is None:
            return
        for writer in writers:
            if not writer.is_failed:
                writer.set_min_regions(writer.metadata.possible_r(wanted))
