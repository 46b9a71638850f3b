"""A stream that is written and tailed during faults, with checks of its content at the end."""

import asyncio
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from rhumbline.cli.servers.local_cluster import LocalCluster
from rhumbline.client.connect import Client
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST

REGIONS = ("bonn", "oslo", "rome")
NAMESPACE = "story"
STREAM = "events"
PRODUCER = b"p" * 16
LIMIT_S = 120


class ScenarioCluster(LocalCluster):
    """Three regions of bookies in this process, with any metadata store."""

    def cut_link(self, client_region: str, region: str) -> None:
        """Cut the link between clients in ``client_region`` and the bookies of ``region``."""
        for local in self.bookies:
            if local.region == region:
                local.relays[client_region].cut()


def cluster_at(uri: str, root: Path, *, bookies_per_region: int = 1) -> ScenarioCluster:
    """Return a cluster with short round trips between its regions."""
    round_trips_ms = dict.fromkeys(combinations(REGIONS, 2), 4)
    cluster = ScenarioCluster(
        root, REGIONS, bookies_per_region=bookies_per_region, round_trips_ms=round_trips_ms
    )
    cluster.metadata_uri = uri
    return cluster


def client_in(
    cluster: LocalCluster,
    region: str,
    metadata_timeout_ms: int = 10_000,
    ledger: LedgerConfig | None = None,
) -> Client:
    """Return a client in a region."""
    return Client(
        cluster.metadata_uri,
        namespace=NAMESPACE,
        region=region,
        ledger=ledger,
        metadata_timeout_ms=metadata_timeout_ms,
    )


async def begin(client: Client, streams: Sequence[str] = (STREAM,)) -> None:
    """Create a namespace whose entries need two regions, and streams in it."""
    policy = StreamPolicy(quorum=Quorum(3, 3, 2, 2))
    await create_namespace(client.store, client.runtime, NAMESPACE, policy)
    for stream in streams:
        await client.namespace().create_stream(stream)


class Producer:
    """Sends numbered records one after the other; each is retried until it is acknowledged."""

    def __init__(self) -> None:
        self.sent = 0
        self.repeated = 0
        self.longest_pause_s = 0.0
        self.refusal: RhumblineError | None = None

    async def send(self, client: Client, writer: StreamWriter, count: int) -> StreamWriter:
        """Send ``count`` more records; return the writer that is open at the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LIMIT_S
        for _ in range(count):
            began = loop.time()
            while True:
                try:
                    await writer.append_numbered(PRODUCER, self.sent, [b"%d" % self.sent])
                    break
                except RhumblineError:
                    assert loop.time() < deadline, f"no append succeeds any more: {self.refusal!r}"
                    self.repeated += 1
                    writer = await self.reopen(client, writer)
            self.sent += 1
            self.longest_pause_s = max(self.longest_pause_s, loop.time() - began)
        return writer

    async def reopen(self, client: Client, writer: StreamWriter) -> StreamWriter:
        """Return a new writer of the stream, or the old one if none can be opened now."""
        await asyncio.sleep(0.05)
        try:
            fresh = await client.namespace().open_writer(STREAM)
        except RhumblineError as error:
            self.refusal = error
            return writer
        await writer.abort()
        return fresh


class Tail:
    """Tails the stream from its beginning while its ``async with`` block runs."""

    def __init__(self, client: Client) -> None:
        self.seen: list[bytes] = []
        self._client = client
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Tail":
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with self._client.reader(STREAM, EARLIEST) as reader:
            async for record in reader:
                self.seen.append(record.payload)

    async def reaches(self, count: int) -> None:
        """Wait until ``count`` records were read, each once and in order."""
        async with asyncio.timeout(LIMIT_S):
            while len(self.seen) < count:  # noqa: ASYNC110 - a test looks from outside
                await asyncio.sleep(0.01)
        assert self.seen == [b"%d" % number for number in range(count)]
