"""A cluster of many bookies and streams in one process, as a program: FOLDER BOOKIES WRITTEN NAMES.

``WRITTEN`` streams have a segment; further streams without one are created until there are
``NAMES``. A few streams are written to all the time. It prints `ready`, and runs until killed. In a
folder in which it ran before, it continues with what it made then.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from rhumbline.cli.servers.local_cluster import SMALL_BOOKIES, LocalCluster
from rhumbline.client.connect import Client
from rhumbline.core.log.metadata.stream_metadata import StreamHead, StreamRecord
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.metadata_store import TXN_OPERATIONS_MAX, Create

REGIONS = ("bonn", "oslo", "rome")
NAMESPACE = "shop"
_AT_ONCE = 64
_BUSY = 20
_PAUSE_S = 0.1
_CONFIG = replace(SMALL_BOOKIES, log_file_bytes=1 << 20)


def name_of(number: int) -> str:
    """Return the name of a stream."""
    return f"orders-{number:06d}"


async def serve(folder: Path, bookies: int, written: int, names: int) -> None:
    """Run the cluster until the process is killed."""
    cluster = LocalCluster(
        folder,
        REGIONS,
        bookies_per_region=bookies // len(REGIONS),
        round_trips_ms={},
        config=_CONFIG,
        serves_status=True,
    )
    async with cluster, cluster.client(REGIONS[0], namespace=NAMESPACE) as client:
        made = folder / "made"
        if not made.exists():
            await _make_all(client, written, names)
            made.touch()
        print("ready", flush=True)
        await asyncio.gather(*(_write(client, number) for number in range(min(_BUSY, written))))


async def _make_all(client: Client, written: int, names: int) -> None:
    policy = StreamPolicy(Quorum(3, 3, 2, 2))
    await create_namespace(client.store, client.runtime, NAMESPACE, policy)
    for first in range(0, written, _AT_ONCE):
        some = range(first, min(written, first + _AT_ONCE))
        await asyncio.gather(*(_make(client, number) for number in some))
    await _make_names(client, range(written, names))


async def _make(client: Client, number: int) -> None:
    await client.namespace().create_stream(name_of(number))
    async with client.writer(name_of(number)) as writer:
        await writer.append(b"first")


async def _make_names(client: Client, numbers: range) -> None:
    """Create streams without segments, many in each transaction."""
    streams = StreamStore(client.store, NAMESPACE)
    now_ms = client.runtime.clock.wall_ms()
    per_txn = TXN_OPERATIONS_MAX // 2
    for first in range(numbers.start, numbers.stop, per_txn):
        creations = []
        for number in range(first, min(numbers.stop, first + per_txn)):
            record = StreamRecord(f"{number:032x}", now_ms)
            paths = streams.paths(name_of(number))
            head = StreamHead(stream_id=record.stream_id)
            creations.append(Create(paths.stream, record.encode()))
            creations.append(Create(paths.head, head.encode()))
        await client.store.txn(creations)


async def _write(client: Client, number: int) -> None:
    async with client.writer(name_of(number)) as writer:
        while True:
            await writer.append(b"ordered")
            await asyncio.sleep(_PAUSE_S)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), *map(int, sys.argv[2:5])))
