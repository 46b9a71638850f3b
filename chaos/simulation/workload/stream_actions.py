"""What applications do to streams beside the one of the run: one deed after the other."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ....core.log.read.positioning import EARLIEST
from ....core.log.read.stream_reader import StreamReader
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import RhumblineError, UnknownOutcomeError
from ...checker.history import AppendOutcome, History, RecordedAppend, RecordedRead
from ..cluster import SimClient, SimCluster, until
from ..world.sim_world import SimHost


class StreamActions:
    """Of all hosts."""

    def __init__(self, cluster: SimCluster, seconds_max: float) -> None:
        """``seconds_max``: for one deed."""
        self.counts: dict[str, int] = {}
        self._cluster = cluster
        self._seconds_max = seconds_max
        self._busy: dict[str, bool] = {}
        """By host: whether a deed is under way."""

    async def _do(
        self, host: SimHost, kind: str, words: str, deed: Coroutine[Any, Any, None]
    ) -> None:
        """Tries one, and counts it if it was done."""
        self._busy[host.name] = True
        try:
            async with asyncio.timeout(self._seconds_max):
                await deed
        except (RhumblineError, TimeoutError) as error:
            trace = self._cluster.world.trace
            trace.detail(host.name, f"{words}: {type(error).__name__}: {error}")
        else:
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._busy[host.name] = False

    async def idle(self) -> None:
        """Waits until none is under way."""
        await until(lambda: not any(self._busy.values()))


async def append_one(
    cluster: SimCluster, writer: StreamWriter, history: History, append: RecordedAppend
) -> None:
    """Appends one record and waits for its outcome. Raises what is raised."""
    try:
        result = await writer.append(append.payload)
    except RhumblineError as error:
        is_unknown = isinstance(error, UnknownOutcomeError)
        outcome = AppendOutcome.UNKNOWN if is_unknown else AppendOutcome.FAILED
        history.end(append, outcome, reason=f"{type(error).__name__}: {error}")
        raise
    holders = cluster.holders(append.token)
    history.end(append, AppendOutcome.OK, dlsn=result.dlsn, regions=result.regions, holders=holders)


async def read_to_the_end(
    client: SimClient, stream: str, history: History, end: Dlsn | None
) -> RecordedRead:
    """Reads all of a stream, up to a position or to the end that it was given. Raises what is
    raised."""
    reader = await client.namespace.open_reader(stream, EARLIEST)
    read = history.begin_read(f"final {stream}", None)
    read.ready_ms = history.now_ms()
    try:
        while await take(reader, history, read, until=end):
            pass
        read.is_complete = True
    except RhumblineError as error:
        history.fail(read, error)
        raise
    finally:
        await reader.aclose()
    return read


async def take(
    reader: StreamReader, history: History, read: RecordedRead, *, until: Dlsn | None = None
) -> bool:
    """Notes the next batch of a reader; False: there is none before its end or ``until``."""
    batch = await reader.next_batch(until=until)
    if batch is None:
        return False
    for record in batch.records():
        history.deliver(read, record.dlsn, record.payload, record.txid, record.producer)
    return True
