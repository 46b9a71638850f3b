"""An append call to a silent proxy ends when another proxy says that it is lost, or after 1.5 s."""

import asyncio
from random import Random

import pytest
from google.protobuf.message import Message

from rhumbline.core.log.write.batch import Batch
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import TXID_FIRST
from rhumbline.proxies.client.channels import Channels
from rhumbline.proxies.client.discovery.proxy_directory import ProxyDirectory
from rhumbline.proxies.client.producer_sender import OutgoingSet
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.methods import PROBE_PROXY, Method
from rhumbline.proxies.write.append_item import Appended
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

KEY = ("ns", "s")


class SilentCall:
    """A call to a proxy that never responds, or that responds to pings only."""

    def __init__(self, *, answers_pings: bool) -> None:
        self._answers_pings = answers_pings
        self._responses: asyncio.Queue[Message | RhumblineError] = asyncio.Queue()

    async def write(self, message: Message) -> None:
        assert isinstance(message, pb.AppendRequest)
        if self._answers_pings and not message.items:
            self._responses.put_nowait(pb.AppendResponse())

    async def read(self) -> Message | None:
        answer = await self._responses.get()
        if isinstance(answer, RhumblineError):
            raise answer
        return answer

    def cancel(self) -> None:
        self._responses.put_nowait(UnavailableError("cancelled"))


class Calls:
    """Every proxy is silent to appends; ``health`` is what it says about others."""

    def __init__(self, health: dict[str, pb.ProxyHealth], *, answers_pings: bool = False) -> None:
        self.asked: list[str] = []
        self._health = health
        self._answers_pings = answers_pings

    def begin(self, address: str, method: Method) -> SilentCall:
        return SilentCall(answers_pings=self._answers_pings)

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        assert method is PROBE_PROXY
        assert isinstance(request, pb.ProbeProxyRequest)
        assert request.address == "a:1"
        self.asked.append(address)
        if address not in self._health:
            raise UnavailableError(f"{address} is away")
        return pb.ProbeProxyResponse(health=self._health[address])

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
            asyncio.shield(result), 5
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


@pytest.mark.parametrize("health", [pb.PROXY_HEALTH_ALIVE, pb.PROXY_HEALTH_UNKNOWN])
async def test_call_lasts_while_no_proxy_says_that_the_silent_one_is_lost(
    health: pb.ProxyHealth,
) -> None:
    calls = Calls({"b:1": health})
    result, took_s = await a_silent_append(calls, "b:1")
    assert isinstance(result, AppendOutcomeUnknownError)
    assert 1.5 <= took_s <= 1.7
    assert len(calls.asked) <= 6


async def test_client_of_a_single_proxy_has_nobody_to_ask() -> None:
    _, took_s = await a_silent_append(Calls({}))
    assert 1.5 <= took_s <= 1.7


async def test_proxy_that_answers_pings_is_not_silent() -> None:
    calls = Calls({}, answers_pings=True)
    with pytest.raises(TimeoutError):
        await a_silent_append(calls, "b:1")
    assert calls.asked == []
