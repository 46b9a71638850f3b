"""What applications do with a stream beside appending and tailing it, while faults happen.

They look where it ends, seek by txid, read from the middle, truncate it, maintain it; and streams
of a short life are made, written by anybody, ended and deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random

from ....core.log.read.positioning import EARLIEST, LATEST, AtTxid, Start
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import EndOfStreamError, NoSuchStreamError, RhumblineError
from ...checker.history import Cut, End, History, Look, RecordedRead
from ..cluster import STREAM, SimClient, SimCluster
from ..world.sim_world import SimHost
from .stream_actions import StreamActions, append_one, read_to_the_end, take

_VISIT_S_MAX = 20.0
_LOOK_S = 3.0
"""How long a short read waits for what it wants."""

LIVES_MAX = 4


class Life:
    """A stream that is made, and perhaps ended and deleted, in a run."""

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self.history = history
        self.is_made = False
        self.is_deleting = False


class StreamWorkload(StreamActions):
    """Of all hosts. ``known``: records that somebody got, as (position, txid)."""

    def __init__(self, cluster: SimCluster, history: History, numbers: Iterator[int]) -> None:
        super().__init__(cluster, _VISIT_S_MAX)
        self.known: list[tuple[Dlsn, int]] = []
        self.lives: dict[str, Life] = {}
        self._history = history
        self._numbers = numbers

    async def run(self, host: SimHost, client: SimClient) -> None:
        """One visit after the other, until the faults are over."""
        world = self._cluster.world
        random = world.random_of(f"visitor {host.name} {host.starts}")
        kinds = [kind for kind, share in _KINDS.items() for _ in range(share)]
        self._busy[host.name] = False
        while not world.is_healed:
            await asyncio.sleep(random.random())
            if world.is_healed:
                break
            kind = random.choice(kinds)
            await self._do(host, kind, kind, getattr(self, f"_{kind}")(host, client, random))

    # --- the one stream -------------------------------------------------------------------------

    async def _look_at_the_end(self, host: SimHost, client: SimClient, random: Random) -> None:
        called_ms = self._history.now_ms()
        end = await client.namespace.end(STREAM)
        self._history.looks.append(Look(f"the end in {host.name}", called_ms, end))

    async def _open_at_latest(self, host: SimHost, client: SimClient, random: Random) -> None:
        called_ms = self._history.now_ms()
        reader = await client.namespace.open_reader(STREAM, LATEST)
        self._history.looks.append(Look(f"the latest in {host.name}", called_ms, reader.position))
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
            await client.namespace.truncate(STREAM, position)
            self._history.cuts.append(Cut(self._history.now_ms(), position))

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
        """Reads a few batches into ``read``, and waits for the next one for a moment only."""
        reader = None
        try:
            reader = await client.namespace.open_reader(stream, start)
            read.ready_ms = history.now_ms()
            async with asyncio.timeout(_LOOK_S):
                for _ in range(batches):
                    if not await take(reader, history, read):
                        read.is_ended = read.is_complete = True
                        return
        except TimeoutError:
            return
        except RhumblineError as error:
            history.fail(read, error)
            raise
        finally:
            if reader is not None:
                await reader.aclose()

    # --- streams of a short life ----------------------------------------------------------------

    async def _live(self, host: SimHost, client: SimClient, random: Random) -> None:
        life = self._some_life(random)
        if not life.is_made:
            life.is_made = True  # perhaps; who opens it will see
            await client.namespace.create_stream(life.name)
        what: Callable[..., Awaitable[None]] = random.choice(
            (self._write_life, self._write_life, self._write_life, self._read_life, self._end_life)
        )
        await what(host, client, random, life)

    def _some_life(self, random: Random) -> Life:
        lives = [life for life in self.lives.values() if not life.is_deleting]
        if len(self.lives) >= LIVES_MAX or (lives and random.random() < 0.7):
            return random.choice(lives or list(self.lives.values()))
        name = f"life-{len(self.lives)}"
        history = History(self._history.now_ms, self._numbers)
        life = self.lives[name] = Life(name, history)
        return life

    async def _write_life(
        self, host: SimHost, client: SimClient, random: Random, life: Life
    ) -> None:
        """One session: a few appends, and then it is ended, closed or left."""
        writer = await client.namespace.open_writer(life.name)
        session = life.history.new_session()
        try:
            for number in range(random.randint(1, 8)):
                append = life.history.call(session, number, b"." * random.randrange(100))
                await append_one(self._cluster, writer, life.history, append)
            last = random.choice(("end", "close", "close", "leave"))
            if last == "end":
                end = End(session, life.history.now_ms())
                life.history.ends.append(end)
                await writer.end_stream()
                end.ended_ms = life.history.now_ms()
                self.counts["ended"] = self.counts.get("ended", 0) + 1
                append = life.history.call(session, 999, b"behind the end")
                await append_one(self._cluster, writer, life.history, append)
            elif last == "close":
                await writer.close()
        finally:
            await writer.abort()

    async def _read_life(
        self, host: SimHost, client: SimClient, random: Random, life: Life
    ) -> None:
        read = life.history.begin_read(f"{life.name} in {host.name}", None)
        await self._read_some(client, life.name, EARLIEST, life.history, read, 1000)

    async def _end_life(self, host: SimHost, client: SimClient, random: Random, life: Life) -> None:
        if random.random() < 0.5:
            await self._read_life(host, client, random, life)
        else:
            await self.delete(client, life)

    async def delete(self, client: SimClient, life: Life) -> None:
        """Deletes it, and looks whether it is gone."""
        while True:
            was_begun, life.is_deleting = life.is_deleting, True
            try:
                await client.namespace.delete_stream(life.name)
            except NoSuchStreamError:
                if not was_begun:
                    raise  # it was never made
            except RhumblineError:
                await asyncio.sleep(0.3)
                continue
            life.history.deleted_ms = life.history.deleted_ms or life.history.now_ms()
            self.counts["deleted"] = self.counts.get("deleted", 0) + 1
            break
        read = life.history.begin_read(f"{life.name} after its deletion", None)
        await self._read_some(client, life.name, EARLIEST, life.history, read, 1)

    async def settle(self, client: SimClient) -> None:
        """After the faults, and the last visit: each is deleted, or closed and read to its end."""
        await self.idle()
        for life in self.lives.values():
            while True:
                try:
                    await self._settle(client, life)
                except NoSuchStreamError:
                    break
                except RhumblineError as error:
                    self._cluster.world.trace.note(life.name, f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.5)
                else:
                    break

    async def _settle(self, client: SimClient, life: Life) -> None:
        if life.is_deleting:
            await self.delete(client, life)
            return
        is_ended = False
        try:
            writer = await client.namespace.open_writer(life.name)
        except EndOfStreamError:
            is_ended = True
        else:
            session = life.history.new_session()
            append = life.history.call(session, 0, b"the end")
            await append_one(self._cluster, writer, life.history, append)
            await writer.close()
        until = None if is_ended else await client.namespace.end(life.name)
        read = await read_to_the_end(client, life.name, life.history, until)
        read.is_ended = is_ended


_KINDS = {
    "look_at_the_end": 4,
    "open_at_latest": 2,
    "seek": 4,
    "read_from": 3,
    "truncate": 1,
    "maintain": 2,
    "live": 3,
}
"""Names of methods, and how often each of them is chosen."""
