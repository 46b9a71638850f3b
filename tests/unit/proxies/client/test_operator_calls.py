"""Administrative calls find the address for operators, and cost applications nothing."""

from random import Random

import pytest
from google.protobuf.message import Message

from rhumbline.core.protocol.errors import (
    NotOwnerError,
    RhumblineError,
    UnavailableError,
    WrongPortError,
)
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.proxies.client.channels import Channels
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.discovery.proxy_directory import ProxyDirectory
from rhumbline.proxies.client.proxy_client import ProxyClient
from rhumbline.proxies.membership import READ, WRITE
from rhumbline.proxies.registration import ProxyMember
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.methods import Method
from rhumbline.proxies.rpc.proxy_listing import ListedProxy
from rhumbline.proxies.rpc.rpc_transport import RpcCall
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import ManualClock

pytestmark = pytest.mark.run_by(runner=run_jumping)

SET_POLICY = pb.SetPolicyRequest(namespace="n", stream="s")


class AnsweredCalls:
    """Unary calls that end as ``outcomes`` says, by address; ``called`` lists the addresses."""

    def __init__(self, outcomes: dict[str, RhumblineError]) -> None:
        self.called: list[str] = []
        self._outcomes = outcomes

    def begin(self, address: str, method: Method) -> RpcCall:
        raise AssertionError("these tests make no streaming call")

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        self.called.append(address)
        if address in self._outcomes:
            raise self._outcomes[address]
        return method.response()

    async def aclose(self) -> None:
        return


def listed(address: str, operators: str) -> ListedProxy:
    member = ProxyMember("", address, "east", True, operator_address=operators)
    return ListedProxy(member, address, frozenset((WRITE, READ)))


async def test_the_refusal_of_an_unlisted_proxy_leads_to_its_other_address() -> None:
    calls = AnsweredCalls({"a:1": WrongPortError("served at a:9 (rule SEC-44)", "a:9")})
    channels = Channels(ProxyDirectory(("a:1",), Random(1)), calls)
    for _ in range(2):
        await channels.call_unary("a:1", methods.SET_POLICY, SET_POLICY, 5)
    assert calls.called == ["a:1", "a:9", "a:9"]
    assert channels.any_proxies() == ("a:1",), "the address for operators is no further proxy"
    await channels.aclose()


async def test_refusals_in_a_circle_end_the_call() -> None:
    calls = AnsweredCalls({"a:1": WrongPortError("no", "a:9"), "a:9": WrongPortError("no", "a:1")})
    channels = Channels(ProxyDirectory(("a:1",), Random(1)), calls)
    with pytest.raises(WrongPortError):
        await channels.call_unary("a:1", methods.SET_POLICY, SET_POLICY, 5)
    assert calls.called == ["a:1", "a:9"]
    await channels.aclose()


async def test_redirects_name_data_addresses_and_are_followed_to_those_for_operators() -> None:
    calls = AnsweredCalls({"a:9": NotOwnerError("in another region", "b:1")})
    runtime = Runtime(ManualClock(), Random(1))
    discovery = DiscoveryConfig(refresh_ms=0)
    async with ProxyClient("grpc://a:1", runtime, calls, discovery=discovery) as client:
        directory = client.channels.directory
        directory.set_listed([listed("a:1", "a:9"), listed("b:1", "b:9")], "east")
        await client.call(methods.SET_POLICY, SET_POLICY, pb.SetPolicyResponse)
    assert calls.called[-1] == "b:9"
    assert set(calls.called) <= {"a:9", "b:9"}


async def test_proxies_are_not_ejected_because_a_client_cannot_reach_their_operators() -> None:
    calls = AnsweredCalls({"a:9": UnavailableError("no route")})
    directory = ProxyDirectory(("a:1",), Random(1), DiscoveryConfig(eject_failures=1))
    channels = Channels(directory, calls)
    directory.set_listed([listed("a:1", "a:9")], "east")
    doubts: list[None] = []
    directory.on_doubt = lambda: doubts.append(None)
    with pytest.raises(UnavailableError):
        await channels.call_unary("a:1", methods.SET_POLICY, SET_POLICY, 5)
    assert directory.statistics()["ejected"] == 0
    assert doubts, "the list may be outdated"
    await channels.call_unary("a:1", methods.LIST_STREAMS, pb.ListStreamsRequest(), 5)
    assert calls.called == ["a:9", "a:1"]
    await channels.aclose()
