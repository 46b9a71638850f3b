"""The benchmark of seeking in a stream of many segments: metadata reads, entry reads and time."""

import random
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

from ..client.connect import Client
from ..core.log.namespace import Namespace
from ..core.log.policy import StreamPolicy
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.errors import GapError
from ..core.protocol.quorum import Quorum
from ..core.protocol.start import AtSequenceId, AtTxid, Start
from .harness.bookie_processes import REGION, BookieProcesses
from .harness.load import NAMESPACE, ensure_namespace
from .harness.read_counter import ReadCounter

_STREAM = "positions"
_PER_SEGMENT = 16
_POLICY = StreamPolicy(quorum=Quorum(3, 3, 2))


async def measure_positions(
    servers: BookieProcesses, segments: int, samples: int
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row per kind of start position, with median and maximum of ``samples`` random seeks.

    Record n of the stream has txid n + 1. Raises GapError if a seek finds another record.
    """
    client = Client(servers.metadata, namespace=NAMESPACE, region=REGION)
    async with client:
        await ensure_namespace(client, _POLICY)
        await client.namespace().create_stream(_STREAM, _POLICY)
        dlsns = await _write(client, segments)
        reads = ReadCounter()
        namespace = Namespace(
            client.runtime, reads.store(client.store), reads.ledgers(client.ledgers), NAMESPACE
        )
        for kind in ("dlsn", "txid", "sequence-id"):
            seconds: list[float] = []
            metadata: list[int] = []
            entries: list[int] = []
            for _ in range(samples):
                number = random.randrange(len(dlsns))
                starts: dict[str, Start] = {
                    "dlsn": dlsns[number],
                    "txid": AtTxid(number + 1),
                    "sequence-id": AtSequenceId(number),
                }
                reads.clear()
                started = time.perf_counter()
                async with await namespace.open_reader(_STREAM, starts[kind]) as reader:
                    record = await anext(reader)
                seconds.append(time.perf_counter() - started)
                metadata.append(reads.metadata)
                entries.append(reads.entries)
                if record.dlsn != dlsns[number]:
                    raise GapError(f"a seek to {dlsns[number]} found {record.dlsn}")
            yield {
                "w": f"find-{kind}",
                "peer": "rhumbline",
                "segments": segments,
                "p50_ms": round(median(seconds) * 1000, 2),
                "max_ms": round(max(seconds) * 1000, 2),
                "metadata_reads": round(median(metadata)),
                "metadata_reads_max": max(metadata),
                "entry_reads": round(median(entries)),
                "entry_reads_max": max(entries),
            }


async def _write(client: Client, segments: int) -> list[Dlsn]:
    """Write segments with one entry per record and return the positions of all records."""
    dlsns: list[Dlsn] = []
    for _ in range(segments):
        async with client.writer(_STREAM) as writer:
            for _ in range(_PER_SEGMENT):
                appended = await writer.append(b"%d" % len(dlsns), txid=len(dlsns) + 1)
                dlsns.append(appended.dlsn)
    return dlsns
