"""An append call to a silent proxy ends soon if it may be lost, and lasts while it is alive."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from google.protobuf.message import Message

from rhumbline.core.log.write.batch import Batch
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    DeadlineExceededError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import TXID_FIRST
from rhumbline.proxies.client.channels import Channels
from rhumbline.proxies.client.discovery.proxy_directory import ProxyDirectory
from rhumbline.proxies.client.producer_sender import OutgoingSet, ProducerSender
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.messages import encode_results
from rhumbline.proxies.rpc.methods import PROBE_PROXY, Method
from rhumbline.proxies.write.append_item import Appended
from rhumbline.tests.support.fakes.jumping_loop import JumpingLoop, run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

KEY = ("ns", "s")
APPENDED = Appended(Dlsn(1, 0, 0), 1, ())


Health = pb.ProxyHealth | Callable[[float], pb.ProxyHealth]
"""What a proxy says about another one, perhaps by the time since it was asked first."""


class SilentCall:
    """A call to a proxy that never responds, that responds to pings only, or that is slow."""

    def __init__(self, *, answers_pings: bool, slow_s: float | None) -> None:
        self._answers_pings = answers_pings
        self._slow_s = slow_s
        self._responses: asyncio.Queue[Message | RhumblineError] = asyncio.Queue()

    async def write(self, message: Message) -> None:
        assert isinstance(message, pb.AppendRequest)
        if self._answers_pings and not message.items:
            self._responses.put_nowait(pb.AppendResponse())
        if self._slow_s is not None:
            response = encode_results([(item.id, APPENDED) for item in message.items])
            loop = asyncio.get_running_loop()
            loop.call_later(self._slow_s, self._responses.put_nowait, response)

    async def read(self) -> Message | None:
        answer = await self._responses.get()
        if isinstance(answer, RhumblineError):
            raise answer
        return answer

    def cancel(self) -> None:
        self._responses.put_nowait(UnavailableError("cancelled"))


class Calls:
    """Every proxy is silent to appends; ``health`` is what it says about others."""

    def __init__(
        self,
        health: dict[str, Health],
        *,
        answers_pings: bool = False,
        slow_s: float | None = None,
    ) -> None:
        self.asked: list[str] = []
        self.begun: list[str] = []
        self._asked_at_s = 0.0
        self._health = health
        self._answers_pings = answers_pings
        self._slow_s = slow_s

    def begin(self, address: str, method: Method) -> SilentCall:
        self.begun.append(address)
        return SilentCall(answers_pings=self._answers_pings, slow_s=self._slow_s)

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        assert method is PROBE_PROXY
        assert isinstance(request, pb.ProbeProxyRequest)
        assert request.address == "a:1"
        now_s = asyncio.get_running_loop().time()
        if not self.asked:
            self._asked_at_s = now_s
        self.asked.append(address)
        if address not in self._health:
            raise UnavailableError(f"{address} is away")
        health = self._health[address]
        if callable(health):
            health = health(now_s - self._asked_at_s)
        return pb.ProbeProxyResponse(health=health)

    async def aclose(self) -> None:
        return


async def a_silent_append(calls: Calls, *addresses: str) -> tuple[Appended | RhumblineError, float]:
    """Append through a:1; return the result and the seconds until it."""
    channels = Channels(ProxyDirectory(("a:1", *addresses), Random(1)), calls)
    result: asyncio.Future[Appended | RhumblineError] = asyncio.get_running_loop().create_future()
    await asyncio.sleep(10)
    began = asyncio.get_running_loop().time()
    outgoing = OutgoingSet(
        Batch(0, TXID_FIRST, 0), b"set", sequence=0, keeps_txids=False, deadline=99
    )
    channels.send("a:1", KEY, outgoing, result.set_result, restarts=True, tried=())
    try:
        return await asyncio.wait_for(
            asyncio.shield(result), 15
        ), asyncio.get_running_loop().time() - began
    finally:
        await channels.aclose()


async def test_call_ends_when_another_proxy_says_that_the_silent_one_is_lost() -> None:
    calls = Calls({"b:1": pb.PROXY_HEALTH_LOST})
    result, took_s = await a_silent_append(calls, "b:1")
    assert isinstance(result, AppendOutcomeUnknownError)
    assert 0.25 <= took_s <= 0.4


async def test_each_question_goes_to_the_next_proxy() -> None:
    calls = Calls({"c:1": pb.PROXY_HEALTH_LOST})
    result, took_s = await a_silent_append(calls, "b:1", "c:1")
    assert isinstance(result, AppendOutcomeUnknownError)
    assert took_s <= 0.7
    assert set(calls.asked) <= {"b:1", "c:1"}


async def test_call_ends_soon_while_no_proxy_knows_the_silent_one() -> None:
    calls = Calls({"b:1": pb.PROXY_HEALTH_UNKNOWN})
    result, took_s = await a_silent_append(calls, "b:1")
    assert isinstance(result, AppendOutcomeUnknownError)
    assert 1.5 <= took_s <= 1.7
    assert len(calls.asked) <= 6


async def test_slow_proxy_keeps_its_call_while_another_one_says_that_it_is_alive() -> None:
    calls = Calls({"b:1": pb.PROXY_HEALTH_ALIVE, "c:1": pb.PROXY_HEALTH_UNKNOWN}, slow_s=3)
    result, took_s = await a_silent_append(calls, "b:1", "c:1")
    assert result == APPENDED
    assert 3 <= took_s <= 3.1
    assert calls.begun == ["a:1"]


async def test_call_to_a_living_proxy_that_stays_silent_ends_after_ten_seconds() -> None:
    calls = Calls({"b:1": pb.PROXY_HEALTH_ALIVE})
    result, took_s = await a_silent_append(calls, "b:1")
    assert isinstance(result, AppendOutcomeUnknownError)
    assert 10 <= took_s <= 10.2
    assert len(calls.asked) <= 20, "the questions do not become rarer"


@pytest.mark.parametrize(
    ("later", "seconds"), [(pb.PROXY_HEALTH_UNKNOWN, 1.5), (pb.PROXY_HEALTH_LOST, 0.0)]
)
async def test_old_confirmation_is_not_believed(later: pb.ProxyHealth, seconds: float) -> None:
    """Another proxy says for two seconds that the silent one is alive, and then something else."""
    calls = Calls({"b:1": lambda asked_s: pb.PROXY_HEALTH_ALIVE if asked_s <= 2 else later})
    result, took_s = await a_silent_append(calls, "b:1")
    assert isinstance(result, AppendOutcomeUnknownError)
    assert 1.7 + seconds <= took_s <= 2.9 + seconds


async def test_time_in_which_the_client_did_not_run_is_no_silence_of_the_proxy() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.call_later(10.1, loop.stand_still, 3.0)
    result, took_s = await a_silent_append(Calls({}, slow_s=4), "b:1")
    assert result == APPENDED
    assert 4 <= took_s <= 4.1


async def a_slow_producer(
    calls: Calls, *, sets: int, timeout_s: float
) -> tuple[ProducerSender, list[Batch]]:
    """Submit sets of one producer to a:1; return its sender and the batches, all settled."""
    channels = Channels(ProxyDirectory(("a:1", "b:1"), Random(1)), calls)
    channels.set_owner(KEY, "a:1")
    settled: list[Batch] = []
    sender = ProducerSender(channels, KEY, Random(1), lambda: None, settled.append)
    deadline = asyncio.get_running_loop().time() + timeout_s
    for sequence in range(sets):
        batch = Batch(0, TXID_FIRST, 0)
        batch.count = 1
        sender.submit(
            OutgoingSet(batch, b"set", sequence=sequence, keeps_txids=False, deadline=deadline)
        )
        await asyncio.sleep(0.1)
    await asyncio.sleep(timeout_s)
    await channels.aclose()
    return sender, settled


async def test_sets_of_a_slow_owner_are_acknowledged_and_not_sent_again() -> None:
    calls = Calls({"b:1": pb.PROXY_HEALTH_ALIVE}, slow_s=3)
    sender, settled = await a_slow_producer(calls, sets=50, timeout_s=30)
    assert [batch.failure for batch in settled] == [None] * 50
    assert sender.resent_count == 0
    assert calls.begun == ["a:1"]


async def test_deadline_of_an_append_ends_the_wait_for_a_slow_owner() -> None:
    calls = Calls({"b:1": pb.PROXY_HEALTH_ALIVE})
    sender, settled = await a_slow_producer(calls, sets=2, timeout_s=4)
    assert isinstance(sender.failure, DeadlineExceededError)
    assert [type(batch.failure) for batch in settled] == [AppendOutcomeUnknownError] * 2


async def test_client_of_a_single_proxy_has_nobody_to_ask() -> None:
    _, took_s = await a_silent_append(Calls({}))
    assert 1.5 <= took_s <= 1.7


async def test_proxy_that_answers_pings_is_not_silent() -> None:
    calls = Calls({}, answers_pings=True)
    with pytest.raises(TimeoutError):
        await a_silent_append(calls, "b:1")
    assert calls.asked == []
