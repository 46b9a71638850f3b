"""Long polls: which replicas get them, what a response means, and when a poll ends."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rhumbline.core.ledger.read.ledger_reader import LedgerReader
from rhumbline.core.ledger.read.long_poll import LongPoll
from rhumbline.core.ledger.read.news_rhythm import NewsRhythm
from rhumbline.core.ledger.read.replica_order import ReplicaOrder
from rhumbline.core.ledger.read_policy import ReadKind, ReplicaChoice
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import BookieUnavailableError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.runtime.primitives.backoff import Backoff
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v3
from rhumbline.core.wire.entry import Entry, EntryDigest, encode_entry
from rhumbline.regions.region_reads import ReadSettings, RegionReads
from rhumbline.tests.unit.core.ledger.world import Outcomes, World, run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)

BOOKIES = tuple(BookieId(f"b{number}@00000000") for number in range(3))
REGIONS = ("a", "b", None)
DIGEST = EntryDigest(DigestType.CRC32C)
LOST = BookieUnavailableError("lost")
SILENCE_MS = 1_000


class Policy:
    """Keeps the order of the choices, and notes what it is told."""

    def __init__(self) -> None:
        self.ordered: list[list[ReplicaChoice]] = []
        self.sent_counts: list[int] = []
        self.events: list[tuple[object, ...]] = []
        self.slow: list[tuple[int, float]] = []

    def order(self, choices: Sequence[ReplicaChoice]) -> Sequence[ReplicaChoice]:
        self.ordered.append(list(choices))
        return choices

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, sent_count: int) -> float:
        assert kind is ReadKind.POLL
        self.sent_counts.append(sent_count)
        return SILENCE_MS

    def may_send_more(self, kind: ReadKind) -> bool:
        return kind is ReadKind.POLL

    def on_response(
        self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, sent_count: int
    ) -> None:
        self.events.append(("response", kind, choice.index, took_ms, sent_count))

    def on_failure(self, choice: ReplicaChoice) -> None:
        self.events.append(("failure", choice.index))

    def on_outrun(self, choice: ReplicaChoice) -> None:
        self.slow.append((choice.index, asyncio.get_running_loop().time()))


class Reader:
    """A reader of ledger 7 whose LAC is ``lac``; it is also the pool of its bookies."""

    def __init__(
        self, lac: int = 4, quorum: Quorum | None = None, *, failed: Sequence[int] = ()
    ) -> None:
        self.ledger_id = 7
        self.last_add_confirmed = lac
        self.digest = DIGEST
        self.metadata: Any = SimpleNamespace(last_fragment=SimpleNamespace(bookies=BOOKIES))
        self.policy = Policy()
        context: Any = SimpleNamespace(
            runtime=SimpleNamespace(random=Random(1)), reads=self.policy, pool=self
        )
        self.context = context
        self.view = QuorumView(quorum or Quorum(3, 3, 2, 1), REGIONS)
        self.failed = [BOOKIES[index] for index in failed]
        self.rhythm = NewsRhythm()
        self.replicas = ReplicaOrder(context)
        self.hang_detector = SimpleNamespace(
            begin=lambda *watched: self.watched.append(watched[1:]),
            end=lambda *watched: self.watched.remove(watched),
        )
        self.watched: list[tuple[object, ...]] = []
        self.kept: list[Entry] = []
        self.lacs: list[int] = []
        self.hints = 0
        self.failures: list[BookieId] = []
        self.on_failure = self.failures.append
        self.received: list[tuple[int, float]] = []
        self.requests: list[tuple[pb.Request, int]] = []
        self.unreachable: list[int] = []
        self.poll: LongPoll | None = None
        self._callbacks: dict[int, Callable[[RhumblineError | None, Any], None]] = {}

    def learn_lac(self, lac: int) -> None:
        self.lacs.append(lac)
        if self.poll is not None:
            self.poll.end()

    def keep(self, entry: Entry) -> None:
        self.kept.append(entry)

    def hint(self) -> None:
        self.hints += 1

    def failed_lately(self) -> list[BookieId]:
        return self.failed

    def message_link(self, bookie: BookieId) -> Any:  # noqa: ANN401
        index = BOOKIES.index(bookie)

        def send(request: pb.Request, on_response: Any, *, extra_ms: int) -> bool:  # noqa: ANN401
            self.received.append((index, round(asyncio.get_running_loop().time(), 6)))
            self.requests.append((request, extra_ms))
            self._callbacks[index] = on_response
            return True

        connection = SimpleNamespace(send_message=send)
        return SimpleNamespace(
            connect=lambda: None if index in self.unreachable else connection,
            hang_detector=self.hang_detector,
        )

    def start(self, backoff: Backoff | None = None) -> LongPoll:
        reader: Any = self
        self.poll = LongPoll(reader, self.view, backoff)
        return self.poll

    def respond(
        self,
        index: int,
        lac: int | None,
        body: bytes | None = None,
        status: v3.Status = v3.Status.OK,
    ) -> None:
        response = v3.read_response(self.requests[0][0], status, body, max_lac=lac)
        self._callbacks[index](None, response)

    def take_callback(self, index: int) -> Callable[[RhumblineError | None, Any], None]:
        """Removes and returns the callback of the last poll of a replica."""
        return self._callbacks.pop(index)

    def lose(self, index: int) -> None:
        self._callbacks[index](LOST, None)

    @property
    def polled(self) -> list[int]:
        return [index for index, _ in self.received]


def entry(entry_id: int) -> bytes:
    return encode_entry(DIGEST, 7, entry_id, entry_id - 1, 1, b"x")


async def test_poll_waits_for_a_lac_above_the_known_one_for_ten_seconds() -> None:
    reader = Reader(4)
    poll = reader.start()
    assert reader.received == [(2, 0)]
    ((request, extra_ms),) = reader.requests
    read = request.read_request
    assert (read.ledger_id, read.previous_lac, read.timeout_ms) == (7, 4, 10_000)
    assert read.flag == pb.ReadRequest.ENTRY_PIGGYBACK
    assert extra_ms == 10_000
    assert poll.previous == 4
    assert not poll.is_over


async def test_replicas_of_the_next_entry_come_first_in_the_order_of_the_policy() -> None:
    reader = Reader(4, Quorum(3, 2, 2, 1), failed=[1])
    reader.start()
    assert reader.policy.ordered == [
        [
            ReplicaChoice(2, BOOKIES[2], None, has_failed=False),
            ReplicaChoice(0, BOOKIES[0], "a", has_failed=False),
        ],
        [ReplicaChoice(1, BOOKIES[1], "b", has_failed=True)],
    ]
    await asyncio.sleep(2.5)
    assert reader.received == [(2, 0), (0, 1), (1, 2)]


async def test_response_with_a_higher_lac_is_learned_and_its_entry_kept() -> None:
    reader = Reader(4)
    poll = reader.start()
    first = reader.polled[0]
    await asyncio.sleep(0.5)
    reader.respond(first, 6, entry(5))
    assert reader.lacs == [6]
    assert [kept.entry_id for kept in reader.kept] == [5]
    assert poll.is_over
    assert reader.policy.events == [("response", ReadKind.POLL, first, 0.0, 1)]
    await asyncio.sleep(20)
    assert len(reader.received) == 1
    assert (reader.hints, reader.failures) == (0, [])


@pytest.mark.parametrize("body", [None, entry(6), entry(5)[:-1] + b"y"])
async def test_lac_is_learned_without_an_entry_or_with_one_that_is_wrong(
    body: bytes | None,
) -> None:
    reader = Reader(4)
    reader.start()
    reader.respond(reader.polled[0], 5, body)
    assert reader.lacs == [5]
    assert reader.kept == []


@pytest.mark.parametrize("lac", [None, 3, 4])
async def test_early_response_without_a_higher_lac_is_followed_by_a_hint_and_a_pause(
    lac: int | None,
) -> None:
    reader = Reader(4)
    poll = reader.start()
    await asyncio.sleep(0.5)
    reader.respond(reader.polled[0], lac, entry(5))
    assert (reader.lacs, reader.kept, reader.hints) == ([], [], 1)
    assert reader.policy.events == []
    assert not poll.is_over
    began = asyncio.get_running_loop().time()
    await poll.wait(60)
    assert poll.is_over
    assert 0.010 <= asyncio.get_running_loop().time() - began <= 0.030


async def test_pauses_between_stuck_polls_grow_to_half_a_second() -> None:
    loop = asyncio.get_running_loop()
    reader = Reader(4)
    backoff: Backoff | None = None
    pauses = []
    for _ in range(8):
        poll = reader.start(backoff)
        assert backoff in (None, poll.backoff)
        backoff = poll.backoff
        reader.respond(reader.polled[-1], 4)
        began = loop.time()
        await poll.wait(60)
        pauses.append(loop.time() - began)
    assert pauses[0] <= 0.030
    assert 0.020 <= pauses[1] <= 0.060
    assert all(0.250 <= pause <= 0.750 for pause in pauses[5:])


@pytest.mark.parametrize(("after_s", "is_pausing"), [(4.9, True), (5.0, False), (9.9, False)])
async def test_poll_that_lasted_for_half_of_its_time_out_ends_without_a_hint(
    after_s: float, is_pausing: bool
) -> None:
    reader = Reader(4)
    reader.unreachable = [1, 2]
    await asyncio.sleep(1)
    poll = reader.start()
    await asyncio.sleep(after_s)
    reader.respond(0, 4)
    assert poll.is_over is not is_pausing
    assert reader.hints == is_pausing


async def test_poll_goes_on_while_another_replica_may_respond() -> None:
    reader = Reader(4)
    poll = reader.start()
    await asyncio.sleep(1.5)
    one, two = reader.polled
    reader.respond(one, 4)
    assert reader.hints == 0
    await asyncio.sleep(0.2)
    assert not poll.is_over
    reader.respond(two, 5)
    assert poll.is_over
    assert reader.policy.events[-1] == ("response", ReadKind.POLL, two, 0.0, 1)


async def test_error_sends_the_poll_to_the_next_replica_at_once() -> None:
    reader = Reader(4)
    poll = reader.start()
    await asyncio.sleep(0.3)
    reader.respond(reader.polled[0], None, status=v3.Status.NO_LEDGER)
    assert reader.received[1][1] == 0.3
    assert (reader.failures, reader.policy.events) == ([], [])
    reader.lose(reader.polled[1])
    lost = reader.polled[1]
    assert reader.failures == [BOOKIES[lost]]
    assert reader.policy.events == [("failure", lost)]
    assert len(reader.received) == 3
    assert not poll.is_over
    reader.lose(reader.polled[2])
    assert reader.hints == 1
    # Only polls that wait at a bookie count for the delay until the next one.
    assert reader.policy.sent_counts == [1, 1]


async def test_error_starts_the_silence_anew() -> None:
    reader = Reader(4)
    reader.start()
    await asyncio.sleep(0.9)
    reader.lose(reader.polled[0])
    await asyncio.sleep(0.9)
    assert len(reader.received) == 2
    await asyncio.sleep(0.2)
    assert [at for _, at in reader.received] == [0, 0.9, 1.9]


async def test_unreachable_replicas_are_skipped_and_reported_as_failed() -> None:
    reader = Reader(4)
    reader.unreachable = [0, 1, 2]
    poll = reader.start()
    assert reader.policy.events == [("failure", 2), ("failure", 0), ("failure", 1)]
    assert reader.hints == 1
    await poll.wait(60)
    assert asyncio.get_running_loop().time() <= 0.030


async def test_replica_that_learns_the_lac_much_later_is_reported_as_slow() -> None:
    reader = Reader(4)
    reader.start()
    await asyncio.sleep(2.5)
    first, second, third = reader.polled
    reader.respond(second, 5)
    assert reader.policy.events == [("response", ReadKind.POLL, second, 0.0, 3)]
    await asyncio.sleep(0.2)
    assert reader.policy.slow == []
    await asyncio.sleep(1)
    ((slow, at),) = reader.policy.slow
    assert slow == first != third
    assert at == pytest.approx(2.75)


async def test_replica_that_learns_the_lac_soon_is_not_reported_as_slow() -> None:
    reader = Reader(4)
    reader.start()
    await asyncio.sleep(1.5)
    first, second = reader.polled
    reader.respond(second, 5)
    await asyncio.sleep(0.2)
    reader.respond(first, 6, entry(5))
    assert reader.lacs == [5, 6]
    await asyncio.sleep(1)
    assert reader.policy.slow == []


async def test_ended_poll_is_sent_to_no_further_replica_but_takes_late_responses() -> None:
    reader = Reader(4)
    poll = reader.start()
    await asyncio.sleep(0.5)
    poll.end()
    poll.end()
    assert poll.is_over
    await asyncio.sleep(5)
    assert len(reader.received) == 1
    reader.respond(reader.polled[0], 5)
    assert reader.lacs == [5]
    reader.poll = None
    other = Reader(4)
    ended = other.start()
    ended.end()
    other.lose(other.polled[0])
    assert (len(other.received), other.hints) == (1, 0)
    assert other.failures == [BOOKIES[other.polled[0]]]


async def test_waiting_calls_end_with_the_poll_or_after_their_own_time() -> None:
    loop = asyncio.get_running_loop()
    reader = Reader(4)
    poll = reader.start()
    short = loop.create_task(poll.wait(0.3))
    long = loop.create_task(poll.wait(60))
    await asyncio.sleep(0.29)
    assert not short.done()
    await asyncio.sleep(0.01)
    assert short.done()
    assert not long.done()
    poll.end()
    await asyncio.sleep(0.001)
    assert long.done()
    await poll.wait(60)
    assert loop.time() < 1


@pytest.mark.parametrize("progress", [0, 1], ids=["no progress", "progress"])
async def test_pauses_between_polls_grow_only_while_the_lac_stays(progress: int) -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Quorum(3, 3, 2, 1))
        reader = await client.open(writer.ledger_id)
        await reader._start_poll()
        first = reader._poll
        assert first is not None
        first.end()
        first.previous -= progress
        await reader._start_poll()
        assert reader._poll is not None and reader._poll is not first
        assert (reader._poll.backoff is first.backoff) is (progress == 0)
        await reader.aclose()
        await writer.close()


async def test_poll_of_a_ledger_with_quick_news_is_sent_on_after_20_ms() -> None:
    reader = Reader(4)
    for number in range(20):
        reader.rhythm.note(number * 0.001)
    reader.start()
    await asyncio.sleep(0.2)
    assert [at for _, at in reader.received] == [0, 0.02, 0.06]


async def test_poll_of_a_ledger_with_rare_news_is_sent_on_after_the_time_of_the_policy() -> None:
    reader = Reader(4)
    for number in range(20):
        reader.rhythm.note(number * 3.0)
    reader.start()
    await asyncio.sleep(1.5)
    assert [at for _, at in reader.received] == [0, 1]


async def test_news_are_noted_once_for_each_poll() -> None:
    reader = Reader(4)
    for lac in range(5, 15):
        reader.start()
        await asyncio.sleep(0.05)
        reader.respond(reader.polled[-1], lac, entry(lac))
    assert reader.rhythm.silence_ms == pytest.approx(100, rel=0.3)


async def test_replica_that_another_one_overtook_comes_last_until_it_responds() -> None:
    reader = Reader(4, Quorum(3, 2, 2, 1))
    reader.start()
    await asyncio.sleep(1.5)
    assert reader.polled == [2, 0]
    silent = reader.take_callback(2)
    reader.respond(0, 5, entry(5))
    reader.last_add_confirmed = 7  # replicas 2 and 0 hold the next entry, as before
    reader.received.clear()
    poll = reader.start()
    await asyncio.sleep(2.5)
    assert reader.polled == [0, 1, 2], "the others come first, even if they lack the entry"
    poll.end()
    silent(LOST, None)
    reader.start()
    assert reader.polled[3:] == [2]


async def test_wait_for_a_silent_replica_does_not_count_as_the_rhythm_of_the_ledger() -> None:
    reader = Reader(4)
    for number in range(20):
        reader.rhythm.note(number * 0.010 - 0.2)
    for lac in range(5, 15):
        poll = reader.start()
        for bookie in BOOKIES:
            reader.replicas.on_response(bookie)
        await poll.wait(0.030)
        first, second = reader.polled[-2:]
        assert first != second
        reader.respond(second, lac, entry(lac))
    assert reader.rhythm.silence_ms == pytest.approx(20, rel=0.02)


@pytest.mark.parametrize("random_seed", range(8))
async def test_tailing_reader_waits_for_a_hung_bookie_for_less_than_60_ms(random_seed: int) -> None:
    """A new entry comes every 10 ms. Each wait for the hung bookie was longer before."""
    world = World("aaa")
    random = Random(random_seed)
    reads = RegionReads(Region("a"), random)
    loop = asyncio.get_running_loop()
    sent_at: list[float] = []
    delays: list[float] = []

    async def tail(reader: LedgerReader) -> None:
        while True:
            for found in await reader.wait(len(delays) - 1, 60_000):
                delays.append(loop.time() - sent_at[found.entry_id])

    async with world.client(reads=reads) as client:
        writer = await client.create(Quorum(3, 3, 2, 1))
        tailing = loop.create_task(tail(await client.open(writer.ledger_id)))
        for number in range(300):
            world.bookies[0].is_hung = number >= 100
            sent_at.append(loop.time())
            writer.add(b"x", Outcomes())
            await asyncio.sleep(random.uniform(0.007, 0.013))
        tailing.cancel()
    assert len(delays) >= 298
    assert max(delays[:90]) <= 0.02
    assert 0.02 < max(delays[100:]) < 0.06
    assert sum(delay > 0.03 for delay in delays[100:]) <= 6, "once, and once for each probe"


async def test_poll_at_a_bookie_that_seems_to_hang_is_sent_to_the_next_replica_at_once() -> None:
    reader = Reader(4)
    poll = reader.start()
    ((_, choice),) = reader.watched
    assert isinstance(choice, ReplicaChoice)
    await asyncio.sleep(0.3)
    poll.on_silent(choice)
    assert [at for _, at in reader.received] == [0, 0.3]
    assert reader.policy.events == [("failure", choice.index)]
    poll.on_silent(choice)
    await asyncio.sleep(0.2)
    assert len(reader.received) == 2, "another replica is waited for"
    reader.respond(reader.polled[1], 5)
    reader.respond(choice.index, 5)
    assert reader.watched == []
    poll.on_silent(choice)
    assert len(reader.received) == 2
    reader.start()
    assert reader.polled[2] in (0, 1, 2)


async def test_poll_that_has_ended_goes_to_no_other_replica_if_the_bookie_hangs() -> None:
    reader = Reader(4)
    poll = reader.start()
    ((_, choice),) = reader.watched
    assert isinstance(choice, ReplicaChoice)
    poll.end()
    poll.on_silent(choice)
    assert len(reader.received) == 1
    assert reader.replicas.is_silent(choice.bookie)


async def test_tailing_readers_of_rare_news_wait_for_a_hung_bookie_for_half_a_second() -> None:
    """The budget of extra requests does not suffice for many such readers; here it is empty."""
    world = World("aaa")
    loop = asyncio.get_running_loop()
    reads = RegionReads(Region("a"), Random(1), ReadSettings(extra_burst=0))
    delays: list[float] = []
    sent_at: dict[tuple[int, int], float] = {}

    async def tail(reader: LedgerReader) -> None:
        for beyond in range(-1, 20):
            for found in await reader.wait(beyond, 60_000):
                delays.append(loop.time() - sent_at[reader.ledger_id, found.entry_id])

    async with world.client(reads=reads) as client:
        writers = [await client.create(Quorum(3, 3, 2, 1)) for _ in range(12)]
        tails = [loop.create_task(tail(await client.open(each.ledger_id))) for each in writers]
        for number in range(12):
            if number == 9:
                usual = max(delays[24:])  # until the next entry, which carries the LAC
                delays.clear()
                world.bookies[0].is_hung = True
            for writer in writers:
                sent_at[writer.ledger_id, number] = loop.time()
                writer.add(b"x", Outcomes())
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.4)
        for each in tails:
            each.cancel()
    assert len(delays) >= 30
    assert usual + 0.1 < max(delays) < usual + 0.6
