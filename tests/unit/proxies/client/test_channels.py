"""Thin clients go where proxies send them, at once the first times, and with pauses after that."""

import asyncio
from collections.abc import Callable

from google.protobuf.message import Message

from rhumbline.core.log.read.positioning import EARLIEST
from rhumbline.core.log.write.batch import Batch
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    NotOwnerError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.record_set import TXID_FIRST
from rhumbline.proxies.client.channels import Channels
from rhumbline.proxies.client.producer_sender import Outgoing
from rhumbline.proxies.client.proxy_reader import ProxySource
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.methods import Method
from rhumbline.proxies.write.append_item import Appended
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

Script = Callable[[str, Message], list[Message | RhumblineError]]
"""What the proxy at an address answers to a request."""


class ScriptedCall:
    """A call that answers as a test says, and then nothing."""

    def __init__(self, address: str, script: Script) -> None:
        self._address = address
        self._script = script
        self._answers: asyncio.Queue[Message | RhumblineError] = asyncio.Queue()

    async def write(self, message: Message) -> None:
        for answer in self._script(self._address, message):
            self._answers.put_nowait(answer)

    async def read(self) -> Message | None:
        answer = await self._answers.get()
        if isinstance(answer, RhumblineError):
            raise answer
        return answer

    def cancel(self) -> None:
        self._answers.put_nowait(UnavailableError("cancelled"))


class ScriptedCalls:
    """All calls of a client; ``begun`` says where each began."""

    def __init__(self, script: Script) -> None:
        self.begun: list[str] = []
        self._script = script

    def begin(self, address: str, method: Method) -> ScriptedCall:
        self.begun.append(address)
        return ScriptedCall(address, self._script)

    async def ask(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        raise AssertionError("these tests ask nothing")

    async def aclose(self) -> None:
        return


def test_a_proxy_that_refuses_a_whole_call_has_taken_nothing_and_says_who_does() -> None:
    async def body() -> None:
        def script(address: str, message: Message) -> list[Message | RhumblineError]:
            return [NotOwnerError("this is no write proxy", "writes:1")]

        channels = Channels(("reads:1",), ScriptedCalls(script))
        answer: asyncio.Future[Appended | RhumblineError] = (
            asyncio.get_running_loop().create_future()
        )
        out = Outgoing(Batch(0, TXID_FIRST, 0), b"set", sequence=0, keeps_txids=False, deadline=9)
        channels.send("reads:1", ("ns", "s"), out, answer.set_result, restarts=True, tried=())
        got = await asyncio.wait_for(answer, 1)
        assert isinstance(got, NotOwnerError)
        assert got.owner == "writes:1"
        await channels.aclose()

    run_jumping(body())


def test_closing_the_client_does_not_say_that_a_set_on_its_way_is_not_there() -> None:
    async def body() -> None:
        channels = Channels(("writes:1",), ScriptedCalls(lambda address, message: []))
        answers: list[Appended | RhumblineError] = []
        for sequence in range(3):
            out = Outgoing(
                Batch(0, TXID_FIRST, 0), b"set", sequence=sequence, keeps_txids=False, deadline=9
            )
            channels.send("writes:1", ("ns", "s"), out, answers.append, restarts=True, tried=())
        await asyncio.sleep(0.01)
        await channels.aclose()
        assert [type(answer) for answer in answers] == [AppendOutcomeUnknownError] * 3

    run_jumping(body())


def a_start() -> pb.ReadResponse:
    return pb.ReadResponse(start=pb.ReadStart(position=pb.Position(lssn=1, entry_id=0, slot=0)))


def test_two_proxies_that_name_each_other_are_asked_with_pauses() -> None:
    """Also when each begins to serve before it thinks better of it."""

    async def body() -> None:
        def script(address: str, message: Message) -> list[Message | RhumblineError]:
            other = "b:1" if address == "a:1" else "a:1"
            return [a_start(), NotOwnerError("stopping", other)]

        calls = ScriptedCalls(script)
        source = ProxySource(Channels(("a:1", "b:1"), calls), "ns", "s", unavailable_ms_max=60_000)
        await source.open(EARLIEST, advances_if_truncated=False)
        reading = asyncio.ensure_future(source.fetch())
        await asyncio.sleep(10)
        assert not reading.done()
        assert 10 <= len(calls.begun) <= 40
        reading.cancel()
        await source.aclose()

    run_jumping(body())


def test_what_comes_makes_the_next_redirect_quick_again() -> None:
    async def body() -> None:
        def script(address: str, message: Message) -> list[Message | RhumblineError]:
            assert isinstance(message, pb.ReadRequest)
            entry = pb.ReadResponse(
                lssn=1, first_entry_id=message.position.entry_id, entries=[b"x"]
            )
            return [a_start(), entry, NotOwnerError("moved", "b:1" if address == "a:1" else "a:1")]

        calls = ScriptedCalls(script)
        source = ProxySource(Channels(("a:1", "b:1"), calls), "ns", "s", unavailable_ms_max=60_000)
        await source.open(EARLIEST, advances_if_truncated=False)
        start = asyncio.get_running_loop().time()
        for number in range(20):
            chunk = await source.fetch()
            assert [entry.entry_id for entry in chunk.entries] == [number]
        assert asyncio.get_running_loop().time() - start < 0.1
        assert calls.begun == ["a:1", "b:1"] * 10
        await source.aclose()

    run_jumping(body())


def test_a_call_that_served_and_broke_is_begun_at_the_same_place_first() -> None:
    """But one that breaks again before anything came turns to the next proxy."""

    async def body() -> None:
        begun: list[str] = []

        def script(address: str, message: Message) -> list[Message | RhumblineError]:
            assert isinstance(message, pb.ReadRequest)
            begun.append(f"{address} after {list(message.tried)}")
            if len(begun) == 2:
                return [UnavailableError("the connection broke")]
            number = message.position.entry_id
            entry = pb.ReadResponse(lssn=1, first_entry_id=number, entries=[b"x"])
            return [a_start(), entry, UnavailableError("the connection broke")]

        calls = ScriptedCalls(script)
        source = ProxySource(Channels(("a:1", "b:1"), calls), "ns", "s", unavailable_ms_max=60_000)
        await source.open(EARLIEST, advances_if_truncated=False)
        for number in range(3):
            chunk = await source.fetch()
            assert [entry.entry_id for entry in chunk.entries] == [number]
        assert begun == ["a:1 after []", "a:1 after []", "b:1 after ['a:1']", "b:1 after []"]
        await source.aclose()

    run_jumping(body())
