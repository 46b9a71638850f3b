"""Stale reads of real servers whose majority was killed (rule STR-28)."""

import asyncio
import time

import pytest

from rhumbline.backends.conformance.assertions import eventually
from rhumbline.core.metadata.read_only_store import ReadOnlyStore, StaleValue
from rhumbline.core.protocol.errors import (
    IndeterminateError,
    MetadataUnavailableError,
)
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.metadata_servers import ZooKeeper
from rhumbline.tests.support.servers.server_kinds import KINDS, ServerKind


def regional_zookeeper() -> ZooKeeper:
    """Return a server that continues to serve reads without its majority."""
    server = ZooKeeper()
    server.java_options = ["-Dreadonlymode.enabled=true"]
    server.settings = ["localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"]
    return server


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> ServerKind:
    assert isinstance(request.param, ServerKind)
    return request.param


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_one_server_of_three_serves_readers_that_arrive_later(kind: ServerKind) -> None:
    """A handle opened before and one opened afterwards read the same; nothing is written."""
    make = regional_zookeeper if kind.scheme == "zk" else kind.make
    members = metadata_servers.started(lambda: metadata_servers.ensemble(make))
    addresses = ",".join(member.address for member in members)
    try:
        async with kind.opened(addresses, "stale") as store:
            for number in range(5):
                await store.create(f"/n/{number}", b"%d" % number)
            before = ReadOnlyStore(store, wait_ms=1_000)
            seen = await before.get("/n/3", stale_ok=True)
            for member in members[1:]:
                member.kill()

            began = time.monotonic()
            async with kind.opened(addresses, "stale", 15_000) as late:
                after = ReadOnlyStore(late, wait_ms=1_000)
                assert (await _read(after, "/n/4")).data == b"4"
                spent_s = time.monotonic() - began
                found = await _read(after, "/n/3")
                assert (found.data, found.version) == seen
                assert (await _read(before, "/n/3")).version == seen.version
                assert await after.children("/n", stale_ok=True) == list("01234")
                with pytest.raises(MetadataUnavailableError):
                    await after.get("/n/9", stale_ok=True)
                with pytest.raises((MetadataUnavailableError, IndeterminateError)):
                    await late.put("/n/3", b"never")

                for member in members[1:]:
                    member.launch()
                await asyncio.to_thread(members[1].wait_ready)

                async def is_back() -> bool:
                    return not after.is_out_of_reach and not before.is_out_of_reach

                await eventually(is_back, "both handles are in reach again")
                assert await after.get("/n/3", stale_ok=True) == seen
                await after.aclose()
            await before.aclose()
            print(f"{kind.scheme}: opened and read without a majority after {spent_s:.1f} s")
    finally:
        for member in members:
            member.remove()


async def _read(reads: ReadOnlyStore, path: str) -> StaleValue:
    """Read a path until something is known, as readers do."""
    async with asyncio.timeout(30):
        while True:
            try:
                value = await reads.get(path, stale_ok=True)
            except MetadataUnavailableError:
                await asyncio.sleep(0.2)
            else:
                assert isinstance(value, StaleValue)
                return value
