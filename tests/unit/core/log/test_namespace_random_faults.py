"""Random histories of competing writers and readers with failing ledgers and lost replies.

Each seed is one history in virtual time. Afterwards the observations of all clients are checked
against the invariants G1 to G5, G7, G10 and G14 of streams. A failing seed fails every time.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    EndOfStreamError,
    NotEnoughBookiesError,
    RhumblineError,
    UnknownOutcomeError,
)
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK, UNAVAILABLE

SEEDS_PER_TEST = 10


@dataclass
class Attempt:
    """One append as its caller saw it."""

    payload: bytes
    called_at: float
    order: int
    session: int
    answered_at: float = float("inf")
    dlsn: Dlsn | None = None
    outcome: str = "unknown"


@dataclass
class History:
    attempts: list[Attempt] = field(default_factory=list)
    runs: list[list[tuple[Dlsn, bytes, int | None]]] = field(default_factory=list)
    sessions: int = 0


class RandomHistory:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = LogWorld()
        self.history = History()
        self.is_over = False
        random = self.random
        policy = StreamPolicy(
            flush=FlushPolicy(
                period_ms=random.choice([0, 0, 1, 10]),
                bytes_max=random.choice([200, 2000]),
                visibility_ms=random.choice([0, 5]),
            ),
            codec=random.choice([Codec.NONE, Codec.ZSTD]),
            roll_bytes=random.choice([400, 3000, 10**6]),
            roll_ms=random.choice([200, 10**6]),
        )
        self.policy = policy
        for part in (self.world.ledgers, self.world.store):
            part.delay_s = self.delay

    def delay(self) -> float:
        return self.random.choice([0, 0.0002, 0.001, 0.001, 0.004, 0.02])

    async def sleep(self, most: float) -> None:
        await asyncio.sleep(self.random.random() * most)

    # --- clients and faults ---------------------------------------------------------------------

    async def run_writers(self) -> None:
        while not self.is_over:
            self.history.sessions += 1
            session = self.history.sessions
            config = WriterConfig(
                failover_ms_max=self.random.choice([50, 3000]),
                backoff_ms_min=5,
                backoff_ms_max=50,
                entries_in_flight_max=self.random.choice([1, 3, 100]),
            )
            try:
                writer = await self.world.open_namespace(config).open_writer("s")
            except RhumblineError:
                await self.sleep(0.2)
                continue
            await self.session(writer, session)

    async def session(self, writer: StreamWriter, session: int) -> None:
        waiting: list[asyncio.Task[None]] = []
        for _ in range(self.random.randrange(1, 60)):
            attempt = Attempt(
                b"%d" % len(self.history.attempts) + b"-" * self.random.randrange(100),
                asyncio.get_running_loop().time(),
                len(self.history.attempts),
                session,
            )
            self.history.attempts.append(attempt)
            task = asyncio.ensure_future(self.append(writer, attempt))
            waiting.append(task)
            if self.random.random() < 0.4:
                await self.sleep(0.01)
            if self.is_over:
                break
        try:
            if self.random.random() < 0.5:
                await writer.close()
        except RhumblineError:
            await self.sleep(0.05)
        await writer.abort()
        for task in waiting:
            task.cancel()
            await asyncio.wait([task])

    async def append(self, writer: StreamWriter, attempt: Attempt) -> None:
        try:
            attempt.dlsn = (await writer.append(attempt.payload)).dlsn
            attempt.outcome = "ok"
        except UnknownOutcomeError:
            attempt.outcome = "unknown"
        except RhumblineError:
            attempt.outcome = "failed"
        attempt.answered_at = asyncio.get_running_loop().time()

    async def run_readers(self) -> None:
        while not self.is_over:
            run: list[tuple[Dlsn, bytes, int | None]] = []
            start = EARLIEST
            if self.history.runs and self.random.random() < 0.5:
                known = self.random.choice(self.history.runs)
                start = self.random.choice(known)[0] if known else EARLIEST  # type: ignore[assignment]
            self.history.runs.append(run)
            reader = await self.world.namespace.open_reader("s", start)
            try:
                async with asyncio.timeout(self.random.random() * 3):
                    async for record in reader:
                        run.append(seen(record))
                        if self.random.random() < 0.02:
                            await self.sleep(0.1)
            except TimeoutError:
                pass
            await reader.aclose()

    async def inject_faults(self) -> None:
        ledgers, store, random = self.world.ledgers, self.world.store, self.random
        while not self.is_over:
            await self.sleep(0.4)
            fault = random.randrange(7)
            if fault == 0:
                ledgers.keeps_unacked = random.random() < 0.5
                ledgers.fail_writers(BookieUnavailableError("chaos"))
            elif fault == 1:
                store.outcomes = random.choices(
                    [OK, LOST_REPLY, LOST_REQUEST, UNAVAILABLE], k=random.randrange(1, 6)
                )
            elif fault == 2:
                ledgers.is_recovery_refused = True
                await self.sleep(0.3)
                ledgers.is_recovery_refused = False
            elif fault == 3:
                ledgers.create_error = NotEnoughBookiesError("chaos")
                await self.sleep(0.3)
                ledgers.create_error = None
            elif fault == 4:
                ledgers.are_acks_held = True
                await self.sleep(0.2)
                ledgers.are_acks_held = False
                ledgers.release_acks()
            elif fault == 5:
                ledgers.read_error = BookieUnavailableError("chaos")
                await self.sleep(0.2)
                ledgers.read_error = None
            else:
                ledgers.release_acks(random.randrange(3))

    # --- the history ----------------------------------------------------------------------------

    async def run(self) -> list[Record]:
        world = self.world
        await create_namespace(world.store, world.runtime, "test", self.policy)
        await world.namespace.create_stream("s")
        parts = [
            self.run_writers(),
            self.run_writers(),
            self.run_readers(),
            self.run_readers(),
            self.inject_faults(),
        ]
        tasks = [asyncio.ensure_future(part) for part in parts]
        await asyncio.sleep(4)
        self.is_over = True
        for task in tasks:
            await task
        world.ledgers.keeps_unacked = self.random.random() < 0.5
        world.store.outcomes = []
        writer = await world.namespace.open_writer("s")
        await writer.end_stream()
        reader = await world.namespace.open_reader("s", EARLIEST)
        log = [record async for record in reader]
        await reader.aclose()
        with pytest.raises(EndOfStreamError):
            await world.namespace.open_writer("s")
        self.segments = await world.segments("s")
        return log

    def check(self, log: list[Record]) -> None:
        by_dlsn = {record.dlsn: record.payload for record in log}
        positions = {record.payload: record.dlsn for record in log}
        assert list(by_dlsn) == sorted(by_dlsn), (
            "records are in order of positions, without duplicates (G2)"
        )
        assert len(positions) == len(log), "no record is stored twice (G5)"
        sent = {attempt.payload for attempt in self.history.attempts}
        assert positions.keys() <= sent, "every record was sent (G1)"
        for attempt in self.history.attempts:
            if attempt.outcome == "ok":
                assert attempt.dlsn is not None
                assert by_dlsn.get(attempt.dlsn) == attempt.payload, (
                    "an acknowledged record is stored (G1)"
                )
            elif attempt.outcome == "failed":
                assert attempt.payload not in positions, (
                    "a record that failed for certain is not stored (G5)"
                )
        self.check_order(positions)
        self.check_readers(log)
        self.check_segments(log)

    def check_order(self, positions: dict[bytes, Dlsn]) -> None:
        """Check G2 (positions rise with the calls of a session) and G4 (linearizability)."""
        newest: dict[int, Dlsn] = {}
        for attempt in self.history.attempts:
            dlsn = positions.get(attempt.payload)
            if dlsn is not None:
                assert newest.get(attempt.session, Dlsn(0, 0, 0)) < dlsn
                newest[attempt.session] = dlsn
        answered = sorted(
            (a for a in self.history.attempts if a.outcome == "ok"), key=lambda a: a.answered_at
        )
        highest = Dlsn(0, 0, 0)
        next_answer = 0
        for attempt in sorted(self.history.attempts, key=lambda a: a.called_at):
            while (
                next_answer < len(answered)
                and answered[next_answer].answered_at < attempt.called_at
            ):
                highest = max(highest, answered[next_answer].dlsn or highest)
                next_answer += 1
            dlsn = positions.get(attempt.payload)
            assert dlsn is None or dlsn > highest, "linearizable (G4)"

    def check_readers(self, log: list[Record]) -> None:
        """Check G3: each reader saw a contiguous run of the log."""
        index = {record.dlsn: n for n, record in enumerate(log)}
        for run in self.history.runs:
            if run:
                first = index[run[0][0]]
                expected = [seen(record) for record in log[first : first + len(run)]]
                assert [r[:2] for r in run] == [e[:2] for e in expected]
                assert all(r[2] in (None, e[2]) for r, e in zip(run, expected, strict=True))

    def check_segments(self, log: list[Record]) -> None:
        segments = self.segments
        assert [s.lssn for s in segments] == list(range(1, len(segments) + 1)), "G7"
        assert len({s.ledger_id for s in segments}) == len(segments), "G7"
        assert all(s.is_completed for s in segments)
        assert [s.epoch for s in segments] == sorted(s.epoch for s in segments)
        counted = 0
        for segment in segments:
            assert segment.start_sequence_id == counted, "G10"
            counted += segment.record_count
        assert counted == len(log)
        assert [record.sequence_id for record in log] == list(range(len(log))), "G10"
        txids = [record.txid for record in log]
        assert txids == sorted(txids)
        # A ledger without a segment was never published, or its creator was stopped before it could
        # delete it. A ledger of a segment is never deleted.
        assert {s.ledger_id for s in segments} <= self.world.ledgers.ledgers.keys(), "G11"


def seen(record: Record) -> tuple[Dlsn, bytes, int | None]:
    return record.dlsn, record.payload, record.sequence_id


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.long) for block in (1, 2, 3))]
)
def test_random_histories_keep_the_invariants(block: int) -> None:
    acked = 0
    for seed in range(block * SEEDS_PER_TEST, (block + 1) * SEEDS_PER_TEST):
        chaos = RandomHistory(seed)
        try:
            chaos.check(run_jumping(chaos.run()))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        acked += sum(a.outcome == "ok" for a in chaos.history.attempts)
    assert acked > 50 * SEEDS_PER_TEST, "the histories are not empty"
