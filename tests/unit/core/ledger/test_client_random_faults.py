"""Random faults, ensemble changes and racing recoveries lose no acknowledged entry.

This is a small and fast model, with far less detail than the simulator: one writer, two recoveries,
bookies that fail, hang and refuse requests, and a metadata store that loses replies.
"""

import asyncio
from random import Random

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import IndeterminateError, LimitExceededError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import DigestType, LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import AnswerKind, Evidence, Verdict
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import EntryDigest, decode_entry
from rhumbline.tests.unit.core.ledger.world import (
    HOLD,
    FakeBookie,
    MetadataAwayError,
    Outcomes,
    Request,
    World,
    run_in_world,
)

QUORUMS = [Quorum(3, 3, 2, 2), Quorum(3, 3, 2, 1), Quorum(4, 3, 2, 2), Quorum(3, 2, 2, 1)]
DIGEST = EntryDigest(DigestType.CRC32C)


class Chaos:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        config = LedgerConfig(
            change_mode="eager" if self.random.random() < 0.5 else "delayed",
            request_timeout_ms=400,
            replacement_wait_ms_max=3_000,
            underreplicated_ms_max=2_000,
            recovery_timeout_ms=60_000,
            recovery_window=self.random.choice([1, 4, 128]),
        )
        self.world = World(self.random.choice(["abcabc", "aabbcc", "abca"]), config)
        self.quorum = self.random.choice(QUORUMS)
        self.done = Outcomes()
        self.sent: dict[int, bytes] = {}
        self.is_over = False

    def disturb(self, bookie: FakeBookie) -> None:
        random = self.random
        bookie.come_up()
        bookie.is_hung = False
        bookie.script = None
        bookie.release()
        match random.randrange(8):
            case 0:
                bookie.go_down()
            case 1:
                bookie.is_hung = True
            case 2:
                bookie.script = self.refuse
            case 3:
                bookie.script = lambda request: HOLD if random.random() < 0.3 else None

    def refuse(self, request: Request) -> object:
        codes = [v2.Code.IO, v2.Code.READ_ONLY, v2.Code.TOO_MANY_REQUESTS]
        if isinstance(request, v2.AddRequest) and self.random.random() < 0.3:
            return self.random.choice(codes)
        return None

    async def make_faults(self) -> None:
        random, world = self.random, self.world
        while True:
            await asyncio.sleep(random.random() * 0.5)
            if self.is_over:
                return
            self.disturb(random.choice(world.bookies))
            for bookie in world.bookies:
                if random.random() < 0.5:
                    bookie.release()
            if random.random() < 0.2:
                error = random.choice([IndeterminateError("lost"), MetadataAwayError("away")])
                is_done = isinstance(error, IndeterminateError) and random.random() < 0.5
                world.ledgers.fail_next("write", error, is_done=is_done)
            if random.random() < 0.1:
                world.ledgers.fail_next("read", MetadataAwayError("away"))

    def heal(self) -> None:
        self.is_over = True
        self.world.ledgers.faults.clear()
        for bookie in self.world.bookies:
            bookie.come_up()
            bookie.is_hung = False
            bookie.script = None
            bookie.release()

    async def write(self, writer: LedgerWriter) -> None:
        random = self.random
        while not writer.is_failed and not self.is_over:
            for _ in range(random.randrange(1, 6)):
                payload = b"%d:" % (writer.last_add_pushed + 1) + b"x" * random.randrange(50)
                try:
                    self.sent[writer.add(payload, self.done)] = payload
                except LimitExceededError:
                    break
            await asyncio.sleep(random.random() * 0.1)

    # --- checks ---------------------------------------------------------------------------------

    def check(self, metadata: LedgerMetadata) -> None:
        done, world = self.done, self.world
        assert [entry_id for entry_id, _, _ in done.all] == list(range(len(done.all))), "L7"
        assert done.acked == list(range(len(done.acked))), "L7: acknowledged behind a failure"
        to_hold = done.acked
        if metadata.state is LedgerState.CLOSED:
            assert max(done.acked, default=-1) <= metadata.last_entry_id, "L1"
            closed = [m for m in world.ledgers.history if m.state is LedgerState.CLOSED]
            ends = dict.fromkeys((m.last_entry_id, m.length) for m in closed)
            assert len(ends) == 1, "L2"
            to_hold = list(range(metadata.last_entry_id + 1))
            assert metadata.length == sum(len(self.sent[i]) for i in to_hold), "L17"
        for entry_id in to_hold:
            self.check_holders(metadata, entry_id)
        for evidence in world.evidence:
            check_evidence(evidence)

    def check_holders(self, metadata: LedgerMetadata, entry_id: int) -> None:
        fragment = metadata.fragment_of(entry_id)
        quorum = metadata.quorum_at(entry_id)
        regions = []
        for index in quorum.write_set(entry_id):
            bookie = self.world.by_id[fragment.bookies[index]]
            data = bookie.entries.get((metadata.ledger_id, entry_id))
            if data is not None:
                entry = decode_entry(DIGEST, metadata.ledger_id, entry_id, data)
                assert entry.payload == self.sent[entry_id], "L11"
                regions.append(bookie.region)
        assert len(regions) >= quorum.ack_quorum, f"L3/L4: entry {entry_id}"
        assert len(dict.fromkeys(regions)) >= quorum.min_regions, f"R1: entry {entry_id}"


def check_evidence(evidence: Evidence) -> None:
    """Checks that the decision follows from the bookies' answers (invariant L14)."""
    if evidence.verdict is not Verdict.ABSENT:
        return
    assert evidence.entry_id is not None
    (quorum,) = evidence.quorums
    never = [a.index for a in evidence.answers if a.kind is AnswerKind.NEVER]
    rest = [i for i in quorum.write_set(evidence.entry_id) if i not in never]
    regions = dict.fromkeys(evidence.regions[i] for i in rest)
    assert len(rest) < quorum.ack_quorum or len(regions) < quorum.min_regions, evidence


@pytest.mark.seeds(40)
@pytest.mark.run_by(runner=run_in_world)
async def test_nothing_acknowledged_is_lost(seed: int) -> None:
    chaos = Chaos(seed)
    world = chaos.world
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("b") as one, world.client("c") as two:
        writer = await client.create(chaos.quorum)
        faults = loop.create_task(chaos.make_faults())
        writing = loop.create_task(chaos.write(writer))
        for _ in range(chaos.random.randrange(5, 40)):
            await asyncio.sleep(0.25)
            chaos.check(world.ledgers.now(writer.ledger_id))
        closing = None
        recovering = []
        if chaos.random.random() < 0.3:
            closing = loop.create_task(writer.close())
        if closing is None or chaos.random.random() < 0.5:
            recovering = [
                loop.create_task(client.recover(writer.ledger_id)) for client in (one, two)
            ]
        await asyncio.sleep(chaos.random.random() * 5)
        chaos.heal()
        await faults
        await writing
        ends = [await task for task in recovering]
        if closing is not None:
            try:
                ends.append(await closing)
            except RhumblineError:
                assert recovering or writer.is_failed  # a recovery may have closed it
        closed = await two.recover(writer.ledger_id)
        assert all(end == closed for end in ends)
        assert closed == world.closed(writer.ledger_id)
        chaos.check(closed)
        reader = await one.open(writer.ledger_id)
        got: list[bytes] = []
        while len(got) <= closed.last_entry_id:
            got += [bytes(e.payload) for e in await reader.read(len(got), closed.last_entry_id)]
        assert got == [chaos.sent[i] for i in range(len(got))]
        await reader.aclose()
