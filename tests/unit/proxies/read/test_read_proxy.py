"""A read proxy that stops ends its calls with a redirect to another read proxy."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from google.protobuf.message import Message

from rhumbline.core.log.namespace import Namespace
from rhumbline.core.metadata.read_only_store import WAIT_MS
from rhumbline.core.protocol.errors import InvalidPositionError, NotOwnerError
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.membership import READ, WRITE
from rhumbline.proxies.rpc import methods
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.proxy_service import ProxyService
from rhumbline.tests.support.fakes.direct_calls import DirectCalls
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.region_world import RegionWorld, in_region


async def a_service(
    log: LogWorld,
    address: str,
    role: str,
    region: str,
    open_namespace: Callable[[], Namespace] | None = None,
) -> ProxyService:
    service = ProxyService(
        log.runtime,
        log.store,
        lambda _: (open_namespace or log.open_namespace)(),
        ProxyConfig(),
        roles=(role,),
        address=address,
        region=region,
        calls=DirectCalls(),
    )
    await service.join()
    await asyncio.sleep(0.01)
    return service


async def requests(*tried: str) -> AsyncIterator[pb.ReadRequest]:
    yield pb.ReadRequest(namespace="test", stream="s", latest=True, heartbeat_ms=100, tried=tried)
    await asyncio.Event().wait()


async def read(service: ProxyService, *tried: str, received: list[Message | bytes]) -> None:
    async def send(message: Message | bytes) -> None:
        received.append(message)

    await service.stream_calls[methods.READ](requests(*tried), send)


async def test_stopping_proxy_redirects_present_and_new_readers(log: LogWorld) -> None:
    await log.namespace.create_stream("s")
    near = await a_service(log, "near:1", READ, "east")
    far = await a_service(log, "far:1", READ, "west")
    writes = await a_service(log, "writes:1", WRITE, "east")
    received: list[Message | bytes] = []
    reading = asyncio.ensure_future(read(near, received=received))
    await asyncio.sleep(1)
    assert len(received) > 5, "the start, and heartbeats"
    with pytest.raises(NotOwnerError) as refused:
        await read(writes, received=[])
    assert refused.value.owner == "near:1"
    with pytest.raises(NotOwnerError) as refused:
        await read(writes, "near:1", received=[])
    assert refused.value.owner == "far:1", "the near proxy could not be reached"

    await near.hand_over()
    with pytest.raises(NotOwnerError):
        await asyncio.wait_for(reading, 1)
    assert near.unready_reason() == "stopping"
    assert near.statistics()["calls"] == 0
    for service in (near, writes):
        with pytest.raises(NotOwnerError) as refused:
            await read(service, received=[])
        assert refused.value.owner == "far:1", "the far proxy still has its session"
    for service in (near, far, writes):
        await service.hand_over()
        await service.leave()


async def test_reader_continues_only_in_the_stream_in_which_it_began(log: LogWorld) -> None:
    """A thin reader that began its call again went on in the next stream of the name."""
    await log.namespace.create_stream("s")
    service = await a_service(log, "near:1", READ, "east")
    received: list[Message | bytes] = []
    reading = asyncio.ensure_future(read(service, received=received))
    await asyncio.sleep(1)
    begun = received[0]
    assert isinstance(begun, pb.ReadResponse)
    position = begun.start.position
    assert position.stream_id == (await log.namespace.describe("s")).stream_id
    await log.namespace.delete_stream("s")
    await log.namespace.create_stream("s")

    async def again() -> AsyncIterator[pb.ReadRequest]:
        yield pb.ReadRequest(namespace="test", stream="s", position=position)
        await asyncio.Event().wait()

    async def send(_: Message | bytes) -> None:
        raise AssertionError("another stream was read")

    with pytest.raises(InvalidPositionError, match="another stream than s"):
        await service.stream_calls[methods.READ](again(), send)
    # A new reader gets a tail of its own, not that of the deleted stream.
    fresh: list[Message | bytes] = []
    reading_fresh = asyncio.ensure_future(read(service, received=fresh))
    await asyncio.sleep(1)
    assert isinstance(fresh[0], pb.ReadResponse)
    assert fresh[0].start.position.stream_id != position.stream_id
    assert not reading_fresh.done()
    for task in (reading, reading_fresh):
        task.cancel()
    await asyncio.wait([reading, reading_fresh])
    await service.hand_over()
    await service.leave()


@in_region
async def test_reader_is_told_that_its_end_is_only_known_from_old_metadata(
    world: RegionWorld,
) -> None:
    service = await a_service(world, "a:1", READ, "east", lambda: world.reader_namespace)

    async def metadata_age_ms(request: pb.ReadRequest) -> int | None:
        first = asyncio.get_running_loop().create_future()

        async def send(message: Message | bytes) -> None:
            if not first.done():
                first.set_result(message)

        async def one_request() -> AsyncIterator[pb.ReadRequest]:
            yield request
            await asyncio.Event().wait()

        call = asyncio.ensure_future(service.stream_calls[methods.READ](one_request(), send))
        begun: pb.ReadStart = (await first).start
        call.cancel()
        await asyncio.wait([call])
        return begun.metadata_age_ms if begun.HasField("metadata_age_ms") else None

    at_latest = pb.ReadRequest(namespace="test", stream="s", latest=True)
    at_earliest = pb.ReadRequest(namespace="test", stream="s", earliest=True)
    up_to_end = pb.ReadRequest(namespace="test", stream="s", earliest=True, stops_at_end=True)
    for request in (at_latest, at_earliest, up_to_end):
        assert await metadata_age_ms(request) is None
    world.regional.cut_off()
    assert (await metadata_age_ms(at_latest) or 0) >= WAIT_MS
    assert (await metadata_age_ms(up_to_end) or 0) >= WAIT_MS, "there may be records after the end"
    assert await metadata_age_ms(at_earliest) is None, "it begins where it wants"
    await service.hand_over()
    await service.leave()
