"""Random actions of applications on streams, with a limit on the time of each action."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from ....core.log.read.stream_reader import StreamReader
from ....core.log.write.stream_writer import StreamWriter
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import RhumblineError, UnknownOutcomeError
from ....core.protocol.start import EARLIEST
from ...checker.history import AppendOutcome, History, RecordedAppend, RecordedRead
from ..cluster import SimClient, SimCluster, until
from ..world.sim_world import SimHost


class StreamActions:
    """The random actions of all hosts: at most one at a time on each host."""

    def __init__(self, cluster: SimCluster, seconds_max: float) -> None:
        """``seconds_max`` limits one action."""
        self.counts: dict[str, int] = {}
        self._cluster = cluster
        self._seconds_max = seconds_max
        self._busy: dict[str, bool] = {}
        """For each host, True while an action is in progress."""

    async def _do(
        self, host: SimHost, kind: str, label: str, action: Coroutine[Any, Any, None]
    ) -> None:
        """Perform one action, and count it if it succeeds."""
        self._busy[host.name] = True
        try:
            async with asyncio.timeout(self._seconds_max):
                await action
        except (RhumblineError, TimeoutError) as error:
            trace = self._cluster.world.trace
            trace.detail(host.name, f"{label}: {type(error).__name__}: {error}")
        else:
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._busy[host.name] = False

    async def idle(self) -> None:
        """Wait until no action is in progress."""
        await until(lambda: not any(self._busy.values()))


async def append_one(
    cluster: SimCluster, writer: StreamWriter, history: History, append: RecordedAppend
) -> None:
    """Append one record and wait for its outcome. Raises what the append raises."""
    try:
        result = await writer.append(append.payload)
    except RhumblineError as error:
        is_unknown = isinstance(error, UnknownOutcomeError)
        outcome = AppendOutcome.UNKNOWN if is_unknown else AppendOutcome.FAILED
        history.finish_append(append, outcome, reason=f"{type(error).__name__}: {error}")
        raise
    holders = cluster.holders(append.token)
    history.finish_append(
        append, AppendOutcome.OK, dlsn=result.dlsn, regions=result.regions, holders=holders
    )


async def read_to_the_end(
    client: SimClient, stream: str, history: History, end: Dlsn | None
) -> RecordedRead:
    """Read a whole stream, up to ``end``, or to its end if it was ended (None).

    Raises what the reader raises.
    """
    read = history.begin_read(f"final {stream}", None)
    reader = await client.namespace.open_reader(stream, EARLIEST)
    read.ready_ms = history.now_ms()
    try:
        while await take(reader, history, read, until=end):
            pass
        read.is_complete = True
    except RhumblineError as error:
        history.fail_read(read, error)
        raise
    finally:
        await reader.aclose()
    return read


async def take(
    reader: StreamReader, history: History, read: RecordedRead, *, until: Dlsn | None = None
) -> bool:
    """Record the next batch of a reader. Returns False if none is left before ``until``."""
    batch = await reader.next_batch(until=until)
    if batch is None:
        return False
    for record in batch.records():
        history.add_record(read, record.dlsn, record.payload, record.txid, record.producer)
    return True
