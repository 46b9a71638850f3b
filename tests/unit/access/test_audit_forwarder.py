"""``AuditForwarder`` appends each line once, whenever it is stopped."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rhumbline.access.audit_follower import AuditFollower
from rhumbline.access.audit_forwarder import AuditForwarder
from rhumbline.access.rotating_file import RotatingFile
from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.protocol.errors import BookieUnavailableError, UnavailableError
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

STREAM = "audit"


async def new_world() -> LogWorld:
    """Return a world for a test in real time: the follower reads in a thread."""
    world = LogWorld()
    await create_namespace(world.store, world.runtime, "test", world.policy)
    return world


async def forward_all(world: LogWorld, path: Path, stream: str = STREAM) -> int:
    follower = AuditFollower(path)
    try:
        forwarder = AuditForwarder(follower, world.open_namespace(), stream, Random(1), ends=True)
        await forwarder.run()
        return forwarder.line_count
    finally:
        follower.close()


async def stored(world: LogWorld, count: int, stream: str = STREAM) -> list[bytes]:
    """Return all records of the stream, which are expected to be this many."""
    async with await world.namespace.open_writer(stream) as writer:
        await writer.append(b"last")
    found = [record.payload for record in await world.read_all(stream, count + 1)]
    assert found.pop() == b"last"
    return found


@pytest.mark.seeds(10)
async def test_each_line_is_in_the_stream_once_whenever_it_is_stopped(
    seed: int, tmp_path: Path
) -> None:
    world, random, path = await new_world(), Random(seed), tmp_path / "audit"
    file = RotatingFile(path, bytes_max=300, kept=100, syncs=False)
    written: list[bytes] = []
    for _ in range(15):
        for _ in range(random.randrange(20)):
            written.append(b"line %d" % len(written))
            file.append(written[-1] + b"\n")
        follower = AuditFollower(path)
        forwarder = AuditForwarder(
            follower, world.open_namespace(), STREAM, Random(seed), ends=False
        )
        tasks = Tasks()
        tasks.spawn(forwarder.run(), "forward")
        await asyncio.sleep(random.random() * 0.01)
        await tasks.aclose()
        follower.close()
    file.close()
    await forward_all(world, path)
    assert await stored(world, len(written)) == written
    assert await forward_all(world, path) == 0


async def test_it_waits_while_the_stream_is_away_and_goes_on(tmp_path: Path) -> None:
    world, path = await new_world(), tmp_path / "audit"
    path.write_bytes(b"one\n")
    await forward_all(world, path)
    with path.open("ab") as file:
        file.write(b"two\n")
    world.ledgers.create_error = BookieUnavailableError("injected by the test")
    follower = AuditFollower(path)
    config = WriterConfig(backoff_ms_min=10, backoff_ms_max=20, failover_ms_max=50)
    namespace = world.open_namespace(config)
    forwarder = AuditForwarder(follower, namespace, STREAM, Random(1), ends=False)
    tasks = Tasks()
    with recorded_log() as recorded:
        tasks.spawn(forwarder.run(), "forward")
        await until(lambda: "audit forwarding interrupted" in recorded.events())
        world.ledgers.create_error = None
        await until(lambda: "audit forwarding resumed" in recorded.events())
        await until(lambda: forwarder.line_count == 1)
    await tasks.aclose()
    follower.close()
    events = [event for event in recorded.events() if event.startswith("audit")]
    assert events == ["audit forwarding interrupted", "audit forwarding resumed"]
    assert await stored(world, 2) == [b"one", b"two"]


async def test_a_stream_that_lacks_the_last_lines_gets_new_numbers(tmp_path: Path) -> None:
    world, path = await new_world(), tmp_path / "audit"
    path.write_bytes(b"one\ntwo\n")
    await forward_all(world, path)
    follower = AuditFollower(path)
    with path.open("ab") as file:
        file.write(b"three\n")
    lines = follower.read()
    assert lines is not None
    follower.close()
    async with await world.writer("restored") as writer:
        await writer.append_numbered(lines.producer, 0, [b"one"])
    with pytest.raises(UnavailableError, match="does not have the last lines"):
        await forward_all(world, path, "restored")
    assert await forward_all(world, path, "restored") == 1
    assert await stored(world, 2, "restored") == [b"one", b"three"]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
