"""One read is sent to replica after replica until one responds with a result."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rhumbline.core.ledger.read.speculative_request import OnReply, SpeculativeRequest
from rhumbline.core.ledger.read_policy import ReadKind, ReplicaChoice
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    BookieUnavailableError,
    CorruptionError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
)
from rhumbline.tests.unit.core.ledger.world import run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)

FIRST, SECOND, THIRD = CHOICES = [
    ReplicaChoice(index, BookieId(f"b{index}@00000000"), "a", has_failed=False)
    for index in range(3)
]


class Policy:
    """A read policy that notes what it is told. ``silence_by_count`` holds milliseconds."""

    def __init__(self, *silence_by_count: float, may_send_more: bool = True) -> None:
        self.asked: list[tuple[ReadKind, ReplicaChoice, int]] = []
        self.events: list[tuple[object, ...]] = []
        self.is_permitting = may_send_more
        self.permissions = 0
        self._silences = silence_by_count or (0.0,)

    def order(self, choices: Sequence[ReplicaChoice]) -> Sequence[ReplicaChoice]:
        raise AssertionError("the request has its order")

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, sent_count: int) -> float:
        self.asked.append((kind, choice, sent_count))
        return self._silences[min(sent_count, len(self._silences)) - 1]

    def may_send_more(self, kind: ReadKind) -> bool:
        assert kind is ReadKind.ENTRY
        self.permissions += 1
        return self.is_permitting

    def on_response(
        self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, sent_count: int
    ) -> None:
        self.events.append(("response", kind, choice, round(took_ms, 6), sent_count))

    def on_failure(self, choice: ReplicaChoice) -> None:
        self.events.append(("failure", choice))

    def on_outrun(self, choice: ReplicaChoice) -> None:
        self.events.append(("outrun", choice))


class Replicas:
    """Replicas that note what they receive; those in ``unreachable`` take nothing."""

    def __init__(self, *unreachable: ReplicaChoice) -> None:
        self.received: list[tuple[float, ReplicaChoice]] = []
        self.failures: list[BookieId] = []
        self.on_failure = self.failures.append  # as of the pool
        self._unreachable = unreachable
        self._reply: dict[ReplicaChoice, OnReply[str]] = {}

    def send(self, choice: ReplicaChoice, on_reply: OnReply[str]) -> bool:
        if choice in self._unreachable:
            return False
        self.received.append((round(asyncio.get_running_loop().time() * 1000, 6), choice))
        self._reply[choice] = on_reply
        return True

    def reply(self, choice: ReplicaChoice, outcome: str | RhumblineError) -> None:
        if isinstance(outcome, RhumblineError):
            self._reply[choice](outcome, None)
        else:
            self._reply[choice](None, outcome)

    def request(
        self, policy: Policy, order: Sequence[ReplicaChoice] = CHOICES
    ) -> SpeculativeRequest[str]:
        pool: Any = self
        return SpeculativeRequest(order, self.send, pool=pool, policy=policy)


async def pass_ms(count: float) -> None:
    await asyncio.sleep(count / 1000)


async def test_first_response_is_the_result_and_no_other_replica_is_read() -> None:
    replicas, policy = Replicas(), Policy(50)
    await pass_ms(7)
    request = replicas.request(policy)
    assert not request.is_over
    await pass_ms(20)
    replicas.reply(FIRST, "entry")
    assert request.is_over
    assert await request.result == (FIRST, "entry")
    await pass_ms(1_000)
    assert replicas.received == [(7, FIRST)]
    assert policy.asked == [(ReadKind.ENTRY, FIRST, 1)]
    assert policy.events == [("response", ReadKind.ENTRY, FIRST, 20, 1)]
    assert replicas.failures == []


async def test_silent_replicas_are_joined_by_the_next_ones_and_reported_as_outrun() -> None:
    replicas, policy = Replicas(), Policy(50, 30)
    request = replicas.request(policy)
    await pass_ms(90)
    assert replicas.received == [(0, FIRST), (50, SECOND), (80, THIRD)]
    assert policy.asked == [(ReadKind.ENTRY, FIRST, 1), (ReadKind.ENTRY, SECOND, 2)]
    replicas.reply(SECOND, "entry")
    assert (await request.result)[0] == SECOND
    assert policy.events == [("response", ReadKind.ENTRY, SECOND, 40, 3), ("outrun", FIRST)]
    replicas.reply(FIRST, "late")
    replicas.reply(THIRD, CorruptionError("late"))
    assert await request.result == (SECOND, "entry")
    assert len(policy.events) == 2


async def test_silence_of_zero_means_that_no_replica_is_joined() -> None:
    replicas, policy = Replicas(), Policy(0)
    replicas.request(policy)
    await pass_ms(60_000)
    assert [choice for _, choice in replicas.received] == [FIRST]
    assert policy.permissions == 0


async def test_shortest_silence_counts() -> None:
    replicas, policy = Replicas(), Policy(1)
    replicas.request(policy)
    await pass_ms(1.5)
    assert replicas.received == [(0, FIRST), (1, SECOND)]


async def test_request_that_may_not_be_sent_once_more_now_may_be_later() -> None:
    replicas, policy = Replicas(), Policy(50, may_send_more=False)
    replicas.request(policy)
    await pass_ms(120)
    assert (policy.permissions, len(replicas.received)) == (2, 1)
    policy.is_permitting = True
    await pass_ms(40)
    assert replicas.received == [(0, FIRST), (150, SECOND)]
    assert policy.asked[:3] == [(ReadKind.ENTRY, FIRST, 1)] * 3


async def test_last_replica_is_waited_for_without_a_timer() -> None:
    replicas, policy = Replicas(), Policy(50)
    replicas.request(policy, [FIRST])
    await pass_ms(10_000)
    assert (policy.asked, policy.permissions) == ([], 0)


async def test_error_is_followed_by_the_next_replica_at_once() -> None:
    replicas, policy = Replicas(), Policy(50)
    request = replicas.request(policy)
    await pass_ms(10)
    replicas.reply(FIRST, CorruptionError("damaged"))
    assert replicas.received == [(0, FIRST), (10, SECOND)]
    assert (policy.events, replicas.failures) == ([], [])
    await pass_ms(10)
    replicas.reply(SECOND, BookieUnavailableError("lost"))
    assert policy.events == [("failure", SECOND)]
    assert replicas.failures == [SECOND.bookie]
    assert not request.is_over
    replicas.reply(THIRD, "entry")
    assert await request.result == (THIRD, "entry")
    assert policy.events[1:] == [("response", ReadKind.ENTRY, THIRD, 0, 3)]


async def test_replica_that_failed_is_not_outrun() -> None:
    replicas, policy = Replicas(), Policy(50)
    request = replicas.request(policy)
    replicas.reply(FIRST, CorruptionError("damaged"))
    await pass_ms(5)
    replicas.reply(SECOND, "entry")
    await request.result
    assert [event[0] for event in policy.events] == ["response"]


async def test_unreachable_replicas_are_skipped_at_once_and_reported() -> None:
    replicas, policy = Replicas(FIRST, SECOND), Policy(50)
    request = replicas.request(policy)
    assert replicas.received == [(0, THIRD)]
    assert policy.events == [("failure", FIRST), ("failure", SECOND)]
    replicas.reply(THIRD, "entry")
    assert await request.result == (THIRD, "entry")
    assert policy.events[2] == ("response", ReadKind.ENTRY, THIRD, 0, 1)


async def test_result_waits_for_replicas_that_may_still_respond() -> None:
    replicas, policy = Replicas(THIRD), Policy(50)
    request = replicas.request(policy)
    await pass_ms(60)
    replicas.reply(SECOND, CorruptionError("damaged"))
    await pass_ms(1_000)
    assert not request.is_over
    replicas.reply(FIRST, "entry")
    assert await request.result == (FIRST, "entry")


async def test_without_replicas_the_request_fails() -> None:
    with pytest.raises(BookieUnavailableError, match="no replica"):
        await Replicas().request(Policy(50), []).result


async def test_without_reachable_replicas_the_request_fails_as_unavailable() -> None:
    replicas, policy = Replicas(*CHOICES), Policy(50)
    with pytest.raises(BookieUnavailableError, match=r"^b0@00000000 is not connected$"):
        await replicas.request(policy).result
    assert policy.events == [("failure", choice) for choice in CHOICES]


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([NoSuchEntryError("1"), NoSuchEntryError("2"), NoSuchLedgerError("3")], "1"),
        ([NoSuchLedgerError("1"), NoSuchLedgerError("2"), NoSuchEntryError("3")], "1"),
        ([NoSuchEntryError("1"), CorruptionError("2"), BookieUnavailableError("3")], "2"),
        ([NoSuchLedgerError("1"), NoSuchEntryError("2"), BookieUnavailableError("3")], "3"),
        ([CorruptionError("1"), NoSuchEntryError("2"), NoSuchEntryError("3")], "1"),
    ],
)
async def test_denial_is_raised_only_if_no_replica_failed_otherwise(
    errors: list[RhumblineError], raised: str
) -> None:
    replicas = Replicas()
    request = replicas.request(Policy(50))
    for choice, error in zip(CHOICES, errors, strict=True):
        assert not request.is_over
        replicas.reply(choice, error)
    with pytest.raises(RhumblineError, match=f"^{raised}$"):
        await request.result


async def test_failed_request_leaves_no_timer() -> None:
    replicas, policy = Replicas(), Policy(50)
    request = replicas.request(policy, [FIRST, SECOND])
    replicas.reply(FIRST, CorruptionError("1"))
    replicas.reply(SECOND, CorruptionError("2"))
    assert isinstance(request.result.exception(), CorruptionError)
    loop: Any = asyncio.get_running_loop()
    assert [handle for handle in loop._scheduled if not handle.cancelled()] == []
