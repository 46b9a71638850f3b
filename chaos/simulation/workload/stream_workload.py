"""Stream operations other than appending and tailing, which applications perform at random.

They query the end of the main stream, seek by transaction id, read from the middle, truncate and
maintain. They also create short-lived streams, which any host writes, ends and deletes.

The strings "visitor" and "life-" (the names of short-lived streams, which are part of metadata
paths) belong to a seed's identity.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from random import Random

from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import (
    EndOfStreamError,
    NoSuchStreamError,
    RefusedError,
    RhumblineError,
)
from ....core.protocol.start import EARLIEST, LATEST, AtTxid, Start
from ...checker.history import (
    AdminCall,
    EndQuery,
    History,
    RecordedRead,
    StreamEnding,
    Truncation,
    Untruncation,
)
from ..cluster import STREAM, SimClient, SimCluster
from ..world.sim_world import SimHost
from .stream_actions import StreamActions, append_one, read_to_the_end, take

_OPERATION_S_MAX = 20.0
_SHORT_READ_S = 3.0
"""Time limit of a short read."""

_PASS_S = 0.3
"""Time for which a pass of retention lasts, or a little more."""

SHORT_STREAMS_MAX = 4


class ShortStream:
    """A stream that is created, and perhaps ended and deleted, during a run."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self.history = history
        self.was_created = False
        self.is_deleting = False


class StreamWorkload(StreamActions):
    """The operations of all hosts. ``known``: (position, txid) of records that some reader got."""

    operations: Mapping[str, int] = {
        "query_end": 4,
        "open_at_latest": 2,
        "seek": 4,
        "read_from": 3,
        "truncate": 1,
        "untruncate": 2,
        "maintain": 2,
        "use_short_stream": 3,
    }
    """Names of operations, and their relative frequency."""

    pause_s_max = 1.0
    """Longest pause of a host between two operations."""

    def __init__(self, cluster: SimCluster, history: History, numbers: Iterator[int]) -> None:
        super().__init__(cluster, _OPERATION_S_MAX)
        self.known: list[tuple[Dlsn, int]] = []
        self.short_streams: dict[str, ShortStream] = {}
        self._history = history
        self._numbers = numbers

    async def run(self, host: SimHost, client: SimClient) -> None:
        """Perform one random operation after the other until the faults are over."""
        world = self._cluster.world
        random = world.random_of(f"visitor {host.name} {host.starts}")
        kinds = [kind for kind, share in self.operations.items() for _ in range(share)]
        self._busy[host.name] = False
        while not world.is_healed:
            await asyncio.sleep(random.random() * self.pause_s_max)
            if world.is_healed:
                break
            kind = random.choice(kinds)
            await self._do(host, kind, kind, getattr(self, f"_{kind}")(host, client, random))

    # --- the main stream ------------------------------------------------------------------------

    async def _query_end(self, host: SimHost, client: SimClient, random: Random) -> None:
        called_ms = self._history.now_ms()
        end = await client.namespace.end(STREAM)
        self._history.end_queries.append(EndQuery(f"the end in {host.name}", called_ms, end))

    async def _open_at_latest(self, host: SimHost, client: SimClient, random: Random) -> None:
        called_ms, stale_reads = self._history.now_ms(), client.metadata_reads.stale_reads
        reader = await client.namespace.open_reader(STREAM, LATEST)
        if client.metadata_reads.stale_reads == stale_reads:  # else it may be too low (STR-30)
            self._history.end_queries.append(
                EndQuery(f"the latest in {host.name}", called_ms, reader.position)
            )
        await reader.aclose()

    async def _seek(self, host: SimHost, client: SimClient, random: Random) -> None:
        if self.known:
            _, txid = random.choice(self.known)
            txid = max(1, txid + random.choice((-1, 0, 0, 1, 50)))
            read = self._history.begin_read(f"seek in {host.name}", None)
            read.seeks_txid = txid
            await self._read_some(client, STREAM, AtTxid(txid), self._history, read, 1)

    async def _read_from(self, host: SimHost, client: SimClient, random: Random) -> None:
        if self.known:
            start, _ = random.choice(self.known)
            read = self._history.begin_read(f"look in {host.name}", start)
            await self._read_some(client, STREAM, start, self._history, read, random.randint(1, 30))

    async def _truncate(self, host: SimHost, client: SimClient, random: Random) -> None:
        if self.known:
            position, _ = self.known[random.randrange(len(self.known) * 2 // 3 + 1)]
            if random.random() < 0.5:
                position = Dlsn(position.lssn, 0, 0)
            called_ms = self._history.now_ms()
            call = AdminCall("truncate", called_ms, position=position)
            self._history.admin_calls.append(call)
            await client.namespace.truncate(STREAM, position)
            call.ended_ms = self._history.now_ms()
            self._history.truncations.append(Truncation(call.ended_ms, position, called_ms))

    async def _untruncate(self, host: SimHost, client: SimClient, random: Random) -> None:
        """Take a truncation back, half of the time during a pass of retention."""
        is_race = random.random() < 0.5
        position: Dlsn | None = None
        if self.known and random.random() < (0.3 if is_race else 0.7):
            position, _ = random.choice(self.known)
        if not is_race:
            await self._take_back(client, position)
            return
        outcomes = await asyncio.gather(
            self._maintain(host, client, random),
            self._take_back(client, position, random.random() * _PASS_S),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _take_back(
        self, client: SimClient, position: Dlsn | None, after_s: float = 0
    ) -> None:
        await asyncio.sleep(after_s)
        call = Untruncation(self._history.now_ms(), position)
        self._history.untruncations.append(call)
        try:
            call.start = await client.namespace.untruncate(STREAM, position)
        except RefusedError:
            call.ended_ms = self._history.now_ms()
            raise
        call.ended_ms = self._history.now_ms()

    async def _maintain(self, host: SimHost, client: SimClient, random: Random) -> None:
        done = await client.namespace.maintain(STREAM)
        self.counts["purged"] = self.counts.get("purged", 0) + len(done.purged)

    async def _read_some(
        self,
        client: SimClient,
        stream: str,
        start: Start,
        history: History,
        read: RecordedRead,
        batches: int,
    ) -> None:
        """Read some batches into ``read``, for at most ``_SHORT_READ_S``."""
        reader = None
        try:
            reader = await client.namespace.open_reader(stream, start)
            read.ready_ms = history.now_ms()
            async with asyncio.timeout(_SHORT_READ_S):
                for _ in range(batches):
                    if not await take(reader, history, read):
                        read.is_ended = read.is_complete = True
                        return
        except TimeoutError:
            return
        except RhumblineError as error:
            history.fail_read(read, error)
            raise
        finally:
            if reader is not None:
                await reader.aclose()

    # --- short-lived streams --------------------------------------------------------------------

    async def _use_short_stream(self, host: SimHost, client: SimClient, random: Random) -> None:
        short = self._pick_short_stream(random)
        if not short.was_created:
            short.was_created = True  # even if it fails: opening the stream will show it
            await client.namespace.create_stream(short.name)
        action: Callable[..., Awaitable[None]] = random.choice(
            (
                self._write_short_stream,
                self._write_short_stream,
                self._write_short_stream,
                self._read_short_stream,
                self._read_or_delete,
            )
        )
        await action(host, client, random, short)

    def _pick_short_stream(self, random: Random) -> ShortStream:
        existing = [short for short in self.short_streams.values() if not short.is_deleting]
        if len(self.short_streams) >= SHORT_STREAMS_MAX or (existing and random.random() < 0.7):
            return random.choice(existing or list(self.short_streams.values()))
        name = f"life-{len(self.short_streams)}"
        history = History(self._history.now_ms, self._numbers)
        short = self.short_streams[name] = ShortStream(name, history)
        return short

    async def _write_short_stream(
        self, host: SimHost, client: SimClient, random: Random, short: ShortStream
    ) -> None:
        """Append a few records in one session, then end the stream, close or abandon the writer."""
        writer = await client.namespace.open_writer(short.name)
        session = short.history.new_session()
        try:
            for number in range(random.randint(1, 8)):
                append = short.history.begin_append(session, number, b"." * random.randrange(100))
                await append_one(self._cluster, writer, short.history, append)
            last = random.choice(("end", "close", "close", "leave"))
            if last == "end":
                end = StreamEnding(session, short.history.now_ms())
                short.history.endings.append(end)
                await writer.end_stream()
                end.ended_ms = short.history.now_ms()
                self.counts["ended"] = self.counts.get("ended", 0) + 1
                append = short.history.begin_append(session, 999, b"behind the end")
                await append_one(self._cluster, writer, short.history, append)
            elif last == "close":
                await writer.close()
        finally:
            await writer.abort()

    async def _read_short_stream(
        self, host: SimHost, client: SimClient, random: Random, short: ShortStream
    ) -> None:
        read = short.history.begin_read(f"{short.name} in {host.name}", None)
        await self._read_some(client, short.name, EARLIEST, short.history, read, 1000)

    async def _read_or_delete(
        self, host: SimHost, client: SimClient, random: Random, short: ShortStream
    ) -> None:
        if random.random() < 0.5:
            await self._read_short_stream(host, client, random, short)
        else:
            await self.delete(client, short)

    async def delete(self, client: SimClient, short: ShortStream) -> None:
        """Delete a stream, and read it once to record whether it is gone."""
        while True:
            was_begun, short.is_deleting = short.is_deleting, True
            try:
                await client.namespace.delete_stream(short.name)
            except NoSuchStreamError:
                if not was_begun:
                    raise  # it was never created
            except RhumblineError:
                await asyncio.sleep(0.3)
                continue
            short.history.deleted_ms = short.history.deleted_ms or short.history.now_ms()
            self.counts["deleted"] = self.counts.get("deleted", 0) + 1
            break
        read = short.history.begin_read(f"{short.name} after its deletion", None)
        await self._read_some(client, short.name, EARLIEST, short.history, read, 1)

    async def finish_streams(self, client: SimClient) -> None:
        """Delete each short-lived stream, or close it and read it to its end.

        Call it after the faults; it waits for the operations in progress first.
        """
        await self.idle()
        for short in self.short_streams.values():
            while True:
                try:
                    await self._finish_stream(client, short)
                except NoSuchStreamError:
                    break
                except RhumblineError as error:
                    self._cluster.world.trace.note(short.name, f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.5)
                else:
                    break

    async def _finish_stream(self, client: SimClient, short: ShortStream) -> None:
        if short.is_deleting:
            await self.delete(client, short)
            return
        is_ended = False
        try:
            writer = await client.namespace.open_writer(short.name)
        except EndOfStreamError:
            is_ended = True
        else:
            session = short.history.new_session()
            append = short.history.begin_append(session, 0, b"the end")
            await append_one(self._cluster, writer, short.history, append)
            await writer.close()
        until = None if is_ended else await client.namespace.end(short.name)
        read = await read_to_the_end(client, short.name, short.history, until)
        read.is_ended = is_ended
