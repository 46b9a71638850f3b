"""The list of proxies is read in the background, from listed proxies and then from seeds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import pytest
from google.protobuf.message import Message

from rhumbline.core.protocol.errors import (
    ConfigurationError,
    DeadlineExceededError,
    UnavailableError,
)
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.discovery.list_refresher import ListRefresher
from rhumbline.proxies.client.discovery.proxy_directory import ProxyDirectory
from rhumbline.proxies.client.discovery.seeds import NoResolver
from rhumbline.proxies.proxy_uri import parse_proxies
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.methods import LIST_PROXIES, Method
from rhumbline.proxies.rpc.rpc_transport import RpcCall
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)


class ListingProxies:
    """Proxies that give a list. ``up`` are those that respond, ``hung`` those that never do."""

    def __init__(self, *up: str) -> None:
        self.up = list(up)
        self.hung: list[str] = []
        self.asked: list[tuple[float, str]] = []

    def begin(self, address: str, method: Method) -> RpcCall:
        raise AssertionError("no streaming call is made")

    async def call_unary(
        self, address: str, method: Method, request: Message, timeout_s: float
    ) -> Message:
        assert method is LIST_PROXIES
        self.asked.append((asyncio.get_running_loop().time(), address))
        if address in self.hung:
            await asyncio.sleep(timeout_s)
            raise DeadlineExceededError("it does not respond")
        if address not in self.up:
            raise UnavailableError("connection refused")
        response = pb.ListProxiesResponse(region="east")
        for one in self.up:
            response.proxies.add(
                address=one, connect_address=one, region="east", roles=["write"], is_accepting=True
            )
        return response

    async def aclose(self) -> None:
        return


class ChangingNames(NoResolver):
    """Names whose addresses change."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses

    async def addresses_of(self, name: str) -> Sequence[str]:
        if not self.addresses:
            raise UnavailableError("no such name")
        return self.addresses


@asynccontextmanager
async def refreshing(
    proxies: ListingProxies, names: NoResolver, uri: str = "grpc://name.example:1"
) -> AsyncIterator[tuple[ProxyDirectory, ListRefresher]]:
    config = DiscoveryConfig(refresh_ms=10_000)
    directory = ProxyDirectory((), Random(1), config)
    refresher = ListRefresher(directory, proxies, parse_proxies(uri), names, config, Random(1))
    tasks = Tasks()
    tasks.spawn(refresher.run(), "refresher")
    yield directory, refresher
    await tasks.aclose()


def listed(directory: ProxyDirectory) -> set[str]:
    return {proxy.member.address for proxy in directory.listed}


async def test_client_follows_the_replacement_of_every_proxy() -> None:
    """A client whose initial proxies were all replaced could not continue."""
    proxies = ListingProxies("a:1", "b:1")
    async with refreshing(proxies, ChangingNames("a:1")) as (directory, refresher):
        await refresher.first()
        assert listed(directory) == {"a:1", "b:1"}
        proxies.up = ["b:1", "c:1"]
        await asyncio.sleep(20)
        assert listed(directory) == {"b:1", "c:1"}
        proxies.up = ["c:1", "d:1"]
        await asyncio.sleep(20)
        assert listed(directory) == {"c:1", "d:1"}
        assert refresher.statistics()["failed_refreshes"] == 0
        gaps = [b[0] - a[0] for a, b in zip(proxies.asked, proxies.asked[1:], strict=False)]
        assert max(gaps) <= 16, "the mean interval is 10 s, with jitter"
        assert len(set(gaps)) == len(gaps)


async def test_names_are_resolved_again_when_no_listed_proxy_responds() -> None:
    proxies = ListingProxies("a:1", "b:1")
    names = ChangingNames("a:1", "b:1")
    with recorded_log("rhumbline.proxies.client.discovery.list_refresher") as log:
        async with refreshing(proxies, names) as (directory, refresher):
            await refresher.first()
            proxies.up = ["x:1", "y:1"]  # all of them replaced at once
            await asyncio.sleep(60)
            assert listed(directory) == {"a:1", "b:1"}
            names.addresses = ["y:1"]
            await asyncio.sleep(20)
            assert listed(directory) == {"x:1", "y:1"}
    assert log.events() == ["proxy list outdated", "proxy list current"]
    assert log.fields("proxy list outdated") == log.fields("proxy list current")
    assert log.fields("proxy list current") == [{"proxies": 2}]


async def test_no_error_of_the_resolver_ends_the_refresher() -> None:
    """An error other than an unresolved name ended it: the list was never read again."""

    class BrokenNames(ChangingNames):
        is_broken = True

        async def addresses_of(self, name: str) -> Sequence[str]:
            if self.is_broken:
                raise ConfigurationError("the package is not installed")
            return self.addresses

    names = BrokenNames("a:1")
    with recorded_log("rhumbline.proxies.client.discovery.list_refresher") as log:
        async with refreshing(ListingProxies("a:1"), names) as (directory, refresher):
            await refresher.first()
            await asyncio.sleep(1)
            assert not listed(directory)
            names.is_broken = False
            await asyncio.sleep(20)
            assert listed(directory) == {"a:1"}
    assert "not installed" in str(log.fields("proxy list outdated")[0]["error"])


async def test_a_failing_proxy_causes_an_early_refresh_and_many_do_not_cause_many() -> None:
    proxies = ListingProxies("a:1", "b:1")
    async with refreshing(proxies, ChangingNames("a:1")) as (directory, refresher):
        await refresher.first()
        await asyncio.sleep(1)
        proxies.up = ["b:1", "c:1"]
        directory.report("a:1", UnavailableError("connection refused"))
        await asyncio.sleep(1)
        assert listed(directory) == {"b:1", "c:1"}
        before = len(proxies.asked)
        for _ in range(1_000):
            directory.report("gone:1", UnavailableError("connection refused"))
            await asyncio.sleep(0.06)
        assert len(proxies.asked) - before < 60, "in 60 s"


async def test_first_call_does_not_wait_long_for_proxies_that_do_not_respond() -> None:
    proxies = ListingProxies("b:1")
    proxies.hung = ["a:1"]
    async with refreshing(proxies, ChangingNames("a:1", "b:1")) as (directory, refresher):
        started = asyncio.get_running_loop().time()
        await refresher.first()
        assert asyncio.get_running_loop().time() - started <= 1.0
        assert directory.any_proxies() == ("a:1", "b:1"), "the seeds, for now"
        await asyncio.sleep(2)
        assert listed(directory) == {"b:1"}


async def test_names_that_cannot_be_resolved_are_resolved_later() -> None:
    proxies, names = ListingProxies("a:1"), ChangingNames()
    async with refreshing(proxies, names) as (directory, refresher):
        await refresher.first()
        assert directory.any_proxies() == ()
        names.addresses = ["a:1"]
        await asyncio.sleep(2)
        assert directory.any_proxies() == ("a:1",)
        assert refresher.statistics()["failed_refreshes"] > 0


async def test_client_keeps_connections_to_few_proxies_only() -> None:
    """A client that asked a random proxy each time would be connected to all of them in the end."""
    proxies = ListingProxies(*(f"p{number}:1" for number in range(100)))
    async with refreshing(proxies, ChangingNames("p0:1")) as (_, refresher):
        await refresher.first()
        await asyncio.sleep(1_000)
        asked = {address for _, address in proxies.asked[1:]}
        assert len(proxies.asked) > 60
        assert len(asked) == 3
