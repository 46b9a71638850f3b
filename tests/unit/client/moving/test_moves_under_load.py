"""Writers, readers and bookies that collect garbage continue while a namespace moves."""

import asyncio
import os
from contextlib import suppress

import pytest

from rhumbline.backends.migration import MigrationError
from rhumbline.client.moving.ledger_steps import LedgerSteps
from rhumbline.client.moving.stream_steps import StreamSteps
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.metadata.ledger_stores import LedgerStores
from rhumbline.core.protocol.errors import NoSuchLedgerError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.move_world import EAST, NAME, MoverKilled, MoveWorld

POLICY = StreamPolicy(quorum=Quorum(3, 3, 2, 1), roll_ms=700)
MOVES = 6
SEEDS = int(os.environ.get("RHUMBLINE_MOVE_SEEDS", "4"))


class LoadedWorld(MoveWorld):
    """A world with a writer and a reader in each region, and bookies that collect garbage."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.delay_s = lambda: self.random.choice((0.0, 0.001, 0.01))
        self.cluster.delay_s = lambda: self.random.choice((0.001, 0.02))
        self.sent = 0
        self.acknowledged: list[int] = []
        self.read: list[list[int]] = []
        self.garbage: list[int] = []
        self.is_stopping = False
        self.moves = 0

    async def write(self) -> None:
        """Append rising numbers from one region after the other, opening the stream again."""
        while not self.is_stopping:
            namespace = self.namespace(self.random.choice((EAST, None)))
            with suppress(RhumblineError):
                async with await namespace.open_writer("s") as writer:
                    for _ in range(self.random.randint(1, 40)):
                        self.sent += 1
                        number = self.sent
                        await writer.append(b"%d" % number)
                        self.acknowledged.append(number)
                        await asyncio.sleep(0.02)
            await asyncio.sleep(0.05)

    async def tail(self, region: str | None) -> None:
        """Read the stream with one reader from beginning to end."""
        found: list[int] = []
        self.read.append(found)
        namespace = self.namespace(EAST if region else None)
        async with await namespace.open_reader("s", EARLIEST) as reader:
            async for record in reader:
                found.append(int(bytes(record.payload)))

    async def collect_garbage(self, ledgers: LedgerStores) -> None:
        """Delete what no store knows, as a bookie does."""
        while True:
            for ledger_id in await self.collect(ledgers):
                self.garbage.append(ledger_id)
                self.cluster.ledgers.pop(ledger_id, None)
            await asyncio.sleep(0.05)

    async def move(self) -> None:
        """Move the namespace back and forth; kill every other mover, and continue or abort."""
        for turn in range(MOVES):
            target = None if turn % 2 == 0 else EAST
            self.kill_at = self.requests + self.random.randint(1, 400)
            self.kills_after, self.is_late = self.random.random() < 0.5, self.random.random() < 0.5
            try:
                await self.mover(target).run()
            except (MoverKilled, RhumblineError):
                self.kill_at = None
                await asyncio.sleep(self.random.random())
                if self.random.random() < 0.5:
                    with suppress(MigrationError):
                        await self.mover(target).abort()
                await self.deliver()
                await self.mover(target).run()
            self.moves += 1
            await asyncio.sleep(self.random.random() * 2)


async def play(seed: int) -> LoadedWorld:
    """Move a namespace under load, and verify that no record is lost, doubled or reordered."""
    world = LoadedWorld(seed)
    await world.start(EAST, POLICY)
    await world.namespace(EAST).create_stream("s")
    tasks = [
        asyncio.create_task(world.tail(EAST)),
        asyncio.create_task(world.tail(None)),
        asyncio.create_task(world.collect_garbage(world.bookie_metadata(EAST))),
        asyncio.create_task(world.collect_garbage(world.bookie_metadata(None))),
    ]
    writing = asyncio.create_task(world.write())
    try:
        await world.move()
        world.is_stopping = True
        await writing
        await world.namespace(EAST).take_over("s")
        last = world.acknowledged[-1]
        async with asyncio.timeout(60):
            while not all(found and found[-1] >= last for found in world.read):
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.1)
    finally:
        for task in (writing, *tasks):
            task.cancel()
            with suppress(asyncio.CancelledError, RhumblineError):
                await task
    for found in world.read:
        assert found == sorted(set(found)), "doubled or reordered"
        assert not {*world.acknowledged} - {*found}, "lost"
    live = await world.live_ledgers()
    assert not {*live} & {*world.garbage}, "a live ledger was deleted"
    assert {*live} <= {*world.cluster.ledgers}
    return world


@pytest.mark.parametrize("run", range(SEEDS))
def test_nothing_is_lost_doubled_or_reordered_while_a_namespace_moves(run: int) -> None:
    world = run_jumping(play(run))
    print(f"{len(world.acknowledged)} records, {world.requests} requests of movers")
    assert len(world.acknowledged) > 50
    assert world.moves == MOVES


def finds(seeds: range) -> bool:
    """Return whether one of the runs fails."""
    for seed in seeds:
        try:
            run_jumping(play(seed))
        except (AssertionError, RhumblineError, TimeoutError) as error:
            print(f"run {seed}: {error!r}"[:300])
            return True
    return False


def test_a_bookie_that_believes_the_store_of_the_id_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read(stores: LedgerStores, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        return await stores.owner_of(ledger_id).read(ledger_id)

    monkeypatch.setattr(LedgerStores, "read", read)
    assert finds(range(3))


def test_a_move_without_closing_the_streams_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream is taken from its writer, but may be claimed again before the commit."""

    async def complete(steps: StreamSteps, stream: str) -> None:
        source = steps.source
        ledgers = steps._ledgers
        await Namespace(steps._runtime, source.store, ledgers, NAME).take_over(stream)

    async def skip(steps: StreamSteps, stream: str) -> None:
        return

    monkeypatch.setattr(StreamSteps, "close", skip)
    monkeypatch.setattr(StreamSteps, "complete", complete)
    monkeypatch.setattr(StreamSteps, "check", skip)
    assert finds(range(3))


def test_a_move_that_deletes_ledgers_without_a_record_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hand_over(steps: LedgerSteps, ledger_id: int) -> None:
        source = steps._source
        with suppress(NoSuchLedgerError):
            await LedgerStore(source.store, number=source.number).delete(ledger_id)

    monkeypatch.setattr(LedgerSteps, "hand_over", hand_over)
    assert finds(range(3))
