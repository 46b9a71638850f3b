"""Thin clients follow redirects, the first ones at once and later ones with pauses."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from google.protobuf.message import Message

from rhumbline.core.log.write.batch import Batch
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    NotOwnerError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import TXID_FIRST
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.proxies.client.channels import Channels
from rhumbline.proxies.client.discovery.proxy_directory import ProxyDirectory
from rhumbline.proxies.client.producer_sender import OutgoingSet
from rhumbline.proxies.client.proxy_reader import ProxySource
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.methods import Method
from rhumbline.proxies.write.append_item import Appended
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

Script = Callable[[str, Message], list[Message | RhumblineError]]
"""Returns the messages that the proxy at an address sends after a request."""


class ScriptedCall:
    """A call that receives what the script says."""

    def __init__(self, address: str, script: Script) -> None:
        self._address = address
        self._script = script
        self._responses: asyncio.Queue[Message | RhumblineError] = asyncio.Queue()

    async def write(self, message: Message) -> None:
        for answer in self._script(self._address, message):
            self._responses.put_nowait(answer)

    async def read(self) -> Message | None:
        answer = await self._responses.get()
        if isinstance(answer, RhumblineError):
            raise answer
        return answer

    def cancel(self) -> None:
        self._responses.put_nowait(UnavailableError("cancelled"))


def source_of(calls: "ScriptedTransport") -> ProxySource:
    channels = Channels(ProxyDirectory(("a:1", "b:1"), Random(1)), calls)
    return ProxySource(channels, "ns", "s", Random(1), unavailable_ms_max=60_000)


class ScriptedTransport:
    """All calls of a client; ``calls_begun`` lists their addresses."""

    def __init__(self, script: Script) -> None:
        self.calls_begun: list[str] = []
        self._script = script

    def begin(self, address: str, method: Method) -> ScriptedCall:
        self.calls_begun.append(address)
        return ScriptedCall(address, self._script)

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        raise AssertionError("these tests make no unary call")

    async def aclose(self) -> None:
        return


async def test_refusal_of_a_whole_call_is_definite_and_names_another_proxy() -> None:
    def script(address: str, message: Message) -> list[Message | RhumblineError]:
        return [NotOwnerError("this is no write proxy", "writes:1")]

    channels = Channels(ProxyDirectory(("reads:1",), Random(1)), ScriptedTransport(script))
    answer: asyncio.Future[Appended | RhumblineError] = asyncio.get_running_loop().create_future()
    outgoing = OutgoingSet(
        Batch(0, TXID_FIRST, 0), b"set", sequence=0, keeps_txids=False, deadline=9
    )
    channels.send("reads:1", ("ns", "s"), outgoing, answer.set_result, restarts=True, tried=())
    got = await asyncio.wait_for(answer, 1)
    assert isinstance(got, NotOwnerError)
    assert got.owner == "writes:1"
    await channels.aclose()


async def test_closing_the_client_leaves_sets_in_flight_with_an_unknown_outcome() -> None:
    silent = ScriptedTransport(lambda address, message: [])
    channels = Channels(ProxyDirectory(("writes:1",), Random(1)), silent)
    answers: list[Appended | RhumblineError] = []
    for sequence in range(3):
        outgoing = OutgoingSet(
            Batch(0, TXID_FIRST, 0), b"set", sequence=sequence, keeps_txids=False, deadline=9
        )
        channels.send("writes:1", ("ns", "s"), outgoing, answers.append, restarts=True, tried=())
    await asyncio.sleep(0.01)
    await channels.aclose()
    assert [type(answer) for answer in answers] == [AppendOutcomeUnknownError] * 3


def a_start() -> pb.ReadResponse:
    return pb.ReadResponse(start=pb.ReadStart(position=pb.Position(lssn=1, entry_id=0, slot=0)))


async def test_redirects_in_a_circle_are_followed_with_pauses() -> None:
    """Also if each proxy begins to serve before it redirects."""

    def script(address: str, message: Message) -> list[Message | RhumblineError]:
        other = "b:1" if address == "a:1" else "a:1"
        return [a_start(), NotOwnerError("stopping", other)]

    calls = ScriptedTransport(script)
    source = source_of(calls)
    await source.open(EARLIEST, advances_if_truncated=False)
    reading = asyncio.ensure_future(source.fetch())
    await asyncio.sleep(10)
    assert not reading.done()
    assert 10 <= len(calls.calls_begun) <= 40
    reading.cancel()
    await source.aclose()


async def test_received_entries_make_the_next_redirect_immediate_again() -> None:
    def script(address: str, message: Message) -> list[Message | RhumblineError]:
        assert isinstance(message, pb.ReadRequest)
        entry = pb.ReadResponse(lssn=1, first_entry_id=message.position.entry_id, entries=[b"x"])
        return [a_start(), entry, NotOwnerError("moved", "b:1" if address == "a:1" else "a:1")]

    calls = ScriptedTransport(script)
    source = source_of(calls)
    await source.open(EARLIEST, advances_if_truncated=False)
    start = asyncio.get_running_loop().time()
    for number in range(20):
        chunk = await source.fetch()
        assert [entry.entry_id for entry in chunk.entries] == [number]
    assert asyncio.get_running_loop().time() - start < 0.1
    assert calls.calls_begun == ["a:1", "b:1"] * 10
    await source.aclose()


async def test_broken_call_that_worked_is_begun_at_the_same_proxy_first() -> None:
    """A call that breaks again before anything arrived goes to the next proxy."""
    calls_begun: list[str] = []

    def script(address: str, message: Message) -> list[Message | RhumblineError]:
        assert isinstance(message, pb.ReadRequest)
        calls_begun.append(f"{address} after {list(message.tried)}")
        if len(calls_begun) == 2:
            return [UnavailableError("the connection broke")]
        number = message.position.entry_id
        entry = pb.ReadResponse(lssn=1, first_entry_id=number, entries=[b"x"])
        return [a_start(), entry, UnavailableError("the connection broke")]

    calls = ScriptedTransport(script)
    source = source_of(calls)
    await source.open(EARLIEST, advances_if_truncated=False)
    for number in range(3):
        chunk = await source.fetch()
        assert [entry.entry_id for entry in chunk.entries] == [number]
    assert calls_begun == ["a:1 after []", "a:1 after []", "b:1 after ['a:1']", "b:1 after []"]
    await source.aclose()
