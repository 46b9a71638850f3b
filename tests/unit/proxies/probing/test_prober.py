"""Proxies probe each other; the registration of a lost one is removed, and it notices."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from google.protobuf.message import Message

from rhumbline.core.protocol.errors import (
    MetadataUnavailableError,
    RefusedError,
    UnavailableError,
)
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import WRITE, ProxyMembership
from rhumbline.proxies.probing.prober import Prober
from rhumbline.proxies.proxy_stores import ProxyStore, ProxyStores
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.tests.support.fakes.direct_calls import DirectCalls, Handler
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

CONFIG = ProxyConfig(session_ttl_ms=60_000)
"""The session does not expire in these tests, so only probing removes a proxy."""


class Process:
    """A proxy process without streams. Its calls break when it is cut off."""

    def __init__(self, region: "Region", address: str, home: str) -> None:
        log = region.log
        self.address = address
        self.membership = ProxyMembership(
            log.store,
            log.runtime,
            roles=(WRITE,),
            address=address,
            region=home,
            session_ttl_ms=CONFIG.session_ttl_ms,
            addresses=(("west", f"west-{address}"),) if home == "east" else (),
        )
        self.calls = DirectCalls(region.served)
        stores = ProxyStores([ProxyStore(log.store, self.membership)])
        self.prober = Prober(stores, self.calls, CONFIG, log.runtime.random)

    def names(self) -> list[str]:
        return [member.address for member in self.membership.members(WRITE)]


class Region:
    """Some proxies that probe each other."""

    def __init__(self, log: LogWorld) -> None:
        self.log = log
        self.served: dict[tuple[str, methods.Method], Handler] = {}
        self.processes: dict[str, Process] = {}

    async def start(self, address: str, home: str = "east") -> Process:
        process = self.processes[address] = Process(self, address, home)
        await process.membership.join()
        process.prober.start()
        for name in (address, f"west-{address}"):
            self.served[name, methods.PROBE_PROXY] = process.prober.respond
        return process

    def hang(self, address: str) -> None:
        for process in self.processes.values():
            process.calls.hung.update((address, f"west-{address}"))

    async def ask(self, asked: str, address: str, *, is_indirect: bool = False) -> pb.ProxyHealth:
        request = pb.ProbeProxyRequest(address=address, is_indirect=is_indirect)
        return (await self.processes[asked].prober.respond(request)).health


@asynccontextmanager
async def a_region(log: LogWorld, *addresses: str) -> AsyncIterator[Region]:
    region = Region(log)
    for address in addresses:
        await region.start(address)
    await asyncio.sleep(0.5)
    try:
        yield region
    finally:
        for process in region.processes.values():
            await process.prober.aclose()
            await process.membership.leave()


async def test_hung_proxy_is_removed_after_the_tolerated_silence(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        region.hang("c:1")
        with recorded_log("rhumbline.proxies") as lines:
            await asyncio.sleep(0.2)
            assert not lines.fields("proxy declared lost")
            await asyncio.sleep(1)
        first = lines.fields("proxy declared lost")[0]
        assert (first["lost"], first["reason"]) == ("c:1", "silent")
        assert 300 <= first["silent_ms"] <= 450
        assert first["witnesses"] in (("a:1",), ("b:1",))
        victim = region.processes["c:1"].membership
        assert lines.fields("proxy registration removed") == [{"proxy": "c:1"}]
        assert victim.removed_count == 1
        assert victim.session is not None, "it has registered again, and is not accused again"
        assert len(lines.fields("proxy declared lost")) <= 2


async def test_proxy_says_how_late_it_was_and_may_be_silent_for_longer(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        victim = region.processes["c:1"].prober
        for _ in range(10):
            victim._lateness.tick(asyncio.get_running_loop().time() + 0.225, 0.025)
        response = await victim.respond(pb.ProbeProxyRequest())
        assert response.lateness_ms >= 190
        await asyncio.sleep(0.15)
        region.hang("c:1")
        await asyncio.sleep(0.7)
        assert victim._stores.first.membership.removed_count == 0
        await asyncio.sleep(1)
        assert victim._stores.first.membership.removed_count >= 1


async def test_proxy_that_waits_for_a_cpu_says_that_it_may_be_late(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        victim = region.processes["c:1"].prober
        loop = asyncio.get_running_loop()
        victim._cpu_wait_seconds = lambda: 0.3 * loop.time()
        await asyncio.sleep(11)
        assert 900 <= (await victim.respond(pb.ProbeProxyRequest())).lateness_ms <= 1_100
        assert victim.statistics()["cpu_wait"] == pytest.approx(0.3, abs=0.02)
        await asyncio.sleep(0.15)
        region.hang("c:1")
        await asyncio.sleep(3)
        assert victim._stores.first.membership.removed_count == 0
        await asyncio.sleep(3)
        assert victim._stores.first.membership.removed_count >= 1


async def test_response_of_a_witness_ends_the_suspicion(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        region.processes["a:1"].calls.hung.add("b:1")  # only the path from a to b is broken
        await asyncio.sleep(3)
        assert region.processes["b:1"].membership.removed_count == 0
        counts = region.processes["a:1"].prober.statistics()
        assert counts["suspected"] > 3
        assert counts["lost_silent"] == 0


async def test_two_proxies_alone_need_the_report_of_a_client(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1") as region:
        region.hang("b:1")
        await asyncio.sleep(2)
        assert "b:1" in region.processes["a:1"].names()
        assert region.processes["a:1"].prober.statistics()["withheld"] == 1
        assert await region.ask("a:1", "b:1") == pb.PROXY_HEALTH_LOST
        assert region.processes["b:1"].membership.removed_count == 1


async def test_a_report_about_a_live_proxy_changes_nothing(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        for _ in range(20):
            assert await region.ask("a:1", "b:1") == pb.PROXY_HEALTH_ALIVE
        assert await region.ask("a:1", "nobody:1") == pb.PROXY_HEALTH_UNKNOWN
        assert await region.ask("a:1", "b:1", is_indirect=True) == pb.PROXY_HEALTH_ALIVE
        alive: list[str] = []
        region.processes["a:1"].membership.on_alive.append(alive.append)
        region.processes["a:1"].membership.report("b:1")
        await asyncio.sleep(0.1)
        assert alive == ["b:1"]
        counts = region.processes["a:1"].prober.statistics()
        assert counts["reports"] == 22
        assert sum(p.membership.removed_count for p in region.processes.values()) == 0


async def test_reports_are_passed_on_to_a_watcher_of_the_region(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        far = await region.start("far:1", "west")
        far.calls.hung.update(("a:1", "b:1", "c:1"))  # the west has addresses of its own for them
        await asyncio.sleep(0.3)
        assert await region.ask("far:1", "b:1") == pb.PROXY_HEALTH_ALIVE
        assert region.processes["far:1"].prober.statistics()["watched"] == 0
        region.hang("b:1")
        assert await region.ask("far:1", "b:1") == pb.PROXY_HEALTH_LOST


async def test_new_process_at_an_address_ends_the_registration_of_the_old_one(
    log: LogWorld,
) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        old = region.processes.pop("c:1")
        await old.prober.aclose()
        await old.membership._tasks.aclose()  # the process was killed
        new = await region.start("c:1")
        await asyncio.sleep(0.3)
        members = region.processes["a:1"].membership.members(WRITE)
        assert [m.id for m in members if m.address == "c:1"] == [new.membership.own_member.id]
        region.processes["old c:1"] = old


async def test_stopping_proxy_is_not_declared_lost(log: LogWorld) -> None:
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        region.processes["c:1"].prober.is_stopping = True
        await asyncio.sleep(0.3)
        region.hang("c:1")
        await asyncio.sleep(2)
        assert region.processes["c:1"].membership.removed_count == 0


async def test_proxy_without_probes_counts_as_alive(log: LogWorld) -> None:
    async def refuse(_: pb.ProbeProxyRequest) -> pb.ProbeProxyResponse:
        raise RefusedError("unknown method")

    async with a_region(log, "a:1", "b:1", "c:1") as region:
        region.served["c:1", methods.PROBE_PROXY] = refuse
        await asyncio.sleep(3)
        assert region.processes["c:1"].membership.removed_count == 0


async def test_removal_is_repeated_until_the_store_responds(
    log: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise MetadataUnavailableError("the store is away")

    async with a_region(log, "a:1", "b:1", "c:1") as region:
        with monkeypatch.context() as patch, recorded_log("rhumbline.proxies") as lines:
            for process in region.processes.values():
                patch.setattr(process.membership, "remove", fail)
            region.hang("c:1")
            await asyncio.sleep(2)
        failed = lines.fields("proxy removal failed")
        assert {line["lost"] for line in failed} == {"c:1"}
        assert len(lines.fields("proxy declared lost")) == 2, "one by each watcher"
        assert "c:1" in region.processes["a:1"].names()
        await asyncio.sleep(0.2)
        assert region.processes["c:1"].membership.removed_count >= 1


async def test_stopped_proxy_passes_no_report_on(log: LogWorld) -> None:
    """It called the next watcher although its connections were closed (plan groups, seed 31)."""
    async with a_region(log, "a:1", "b:1", "c:1") as region:
        asked = await region.start("far:1", "west")
        await asyncio.sleep(0.5)
        passed_on: list[str] = []

        def refusing(name: str, respond: Handler) -> Handler:
            async def refuse(request: pb.ProbeProxyRequest) -> Message:
                if not request.is_forwarded:
                    return await respond(request)
                passed_on.append(name)
                await asyncio.sleep(0.1)
                raise UnavailableError(f"{name} is cut off")

            return refuse

        for name, method in list(region.served):
            region.served[name, method] = refusing(name, region.served[name, method])
        asking = asyncio.ensure_future(region.ask("far:1", "a:1"))
        await asyncio.sleep(0.05)
        await asked.prober.aclose()
        assert await asking == pb.PROXY_HEALTH_UNKNOWN
        assert len(passed_on) == 1


async def test_stopped_proxy_probes_no_other(log: LogWorld) -> None:
    """It opened a connection that nothing closed (plan impatient-clients, seed 31000004)."""
    async with a_region(log, "a:1", "b:1") as region:
        await region.processes["a:1"].prober.aclose()
        probed: list[str] = []

        async def note(_: pb.ProbeProxyRequest) -> Message:
            probed.append("b:1")
            return pb.ProbeProxyResponse(health=pb.PROXY_HEALTH_ALIVE)

        for name, method in list(region.served):
            if name == "b:1":
                region.served[name, method] = note
        assert await region.ask("a:1", "b:1", is_indirect=True) == pb.PROXY_HEALTH_UNKNOWN
        assert not probed
