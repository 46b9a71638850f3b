"""The benchmark of a stream with many segments: listing, opening, reading and truncating it."""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from statistics import median
from typing import Any

from ..client.connect import Client
from ..core.log.metadata.stream_store import StreamStore
from ..core.log.policy import StreamPolicy
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.errors import GapError, InvariantBrokenError
from ..core.protocol.quorum import Quorum
from ..core.protocol.segments import FIRST_LSSN, encode_segment
from ..core.protocol.start import EARLIEST, LATEST, Start
from ..core.runtime.metadata_store import Create
from .harness.bookie_processes import REGION, BookieProcesses
from .harness.load import NAMESPACE, ensure_namespace
from .harness.metadata_calls import metadata_calls, open_distant_client

_STREAM = "segments"
_POLICY = StreamPolicy(quorum=Quorum(3, 3, 2))
_PER_TRANSACTION = 64
_SAMPLES = 20
_READ_SEGMENTS = 100


async def measure_many_segments(
    servers: BookieProcesses, count: int, metadata_delay_s: float = 0.0
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row per operation on a stream of ``count`` completed segments.

    Each segment has one record, and all share one ledger, so that only their metadata is written.
    A row has the median time and the metadata calls of the client in one operation. The operation
    "read-many" reads the first ``_READ_SEGMENTS`` segments, or all if there are fewer.
    """
    async with Client(servers.metadata, namespace=NAMESPACE, region=REGION) as client:
        await ensure_namespace(client, _POLICY)
        await client.namespace().create_stream(_STREAM, _POLICY)
        async with client.writer(_STREAM) as writer:
            await writer.append(b"record")
        await _multiply_segment(client, count)
    async with AsyncExitStack() as opening:
        client = await open_distant_client(opening, servers.metadata, metadata_delay_s)
        for name, work in _Operations(client, count).by_name().items():
            seconds: list[float] = []
            calls: list[int] = []
            for _ in range(_SAMPLES):
                before, started = metadata_calls(client), time.perf_counter()
                await work()
                seconds.append(time.perf_counter() - started)
                calls.append(metadata_calls(client) - before)
            yield {
                "w": name,
                "peer": "rhumbline",
                "segments": count,
                "p50_ms": round(median(seconds) * 1000, 2),
                "max_ms": round(max(seconds) * 1000, 2),
                "metadata_calls": round(median(calls)),
                "cli_rss": servers.usage().client_rss_mib,
            }


class _Operations:
    """The operations on the stream."""

    def __init__(self, client: Client, count: int) -> None:
        self._client = client
        self._count = count
        self._truncated_to = FIRST_LSSN

    def by_name(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the operations by name, in the order in which they run."""
        return {
            "list": self._list,
            "read-first": lambda: self._read_from(EARLIEST),
            "read-somewhere": self._read_somewhere,
            "read-many": lambda: self._read_from(EARLIEST, min(self._count, _READ_SEGMENTS)),
            "open-reader": self._open_reader,
            "open-writer": self._open_writer,
            "truncate": self._truncate,
        }

    async def _list(self) -> None:
        found = (await self._client.namespace().describe(_STREAM)).segments
        if len(found) != self._count:
            raise InvariantBrokenError(f"{len(found)} of {self._count} segments are listed")

    async def _read_from(self, start: Start, segments: int = 1) -> None:
        async with self._client.reader(_STREAM, start) as reader:
            for _ in range(segments):
                if not (await anext(reader)).payload:
                    raise GapError("a record has no payload")

    async def _read_somewhere(self) -> None:
        await self._read_from(Dlsn(random.randint(FIRST_LSSN, self._count), 0, 0))

    async def _open_reader(self) -> None:
        async with self._client.reader(_STREAM, LATEST):
            pass

    async def _open_writer(self) -> None:
        async with self._client.writer(_STREAM) as writer:
            await writer.append(b"record")

    async def _truncate(self) -> None:
        self._truncated_to += max(1, self._count // (2 * _SAMPLES))
        await self._client.namespace().truncate(_STREAM, Dlsn(self._truncated_to, 0, 0))


async def _multiply_segment(client: Client, count: int) -> None:
    """Copy the metadata of the first segment until the stream has ``count`` segments."""
    store = StreamStore(client.store, NAMESPACE)
    paths = store.paths(_STREAM)
    record, _ = await store.record(_STREAM)
    stored = await store.segment(_STREAM, FIRST_LSSN, record.stream_id)
    if stored is None:
        raise InvariantBrokenError("the stream has no segment")
    first = stored.segment
    for begin in range(FIRST_LSSN + 1, count + 1, _PER_TRANSACTION):
        lssns = range(begin, min(begin + _PER_TRANSACTION, count + 1))
        segments = [replace(first, lssn=lssn, start_sequence_id=lssn - 1) for lssn in lssns]
        await client.store.txn(
            [Create(paths.segment(one.lssn), encode_segment(one)) for one in segments]
        )
    head, version = await store.head(_STREAM, record.stream_id)
    await client.store.put(paths.head, replace(head, last_lssn=count).encode(), expect=version)
