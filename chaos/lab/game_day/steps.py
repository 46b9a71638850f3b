"""The outages of a game day. Each step injects a fault, and does what the runbook says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....core.bookie.config import MIB
from .idle_owner import IDLE_STREAM, IdleOwner
from .on_call import OnCall
from .regional_cluster import RegionalCluster, Server
from .small_disk import SmallDisk

OLD_STREAM = "old-backups"
IDLE_RECORDS = 5
OLD_BYTES, OLD_RECORD_BYTES = 24 * MIB, 60_000
SMALL_DISK_BYTES, LEFT_BYTES = 128 * MIB, 4 * MIB
DRAIN_S_MAX = 180.0
_POLL_S = 2.0
LOST_REGION, DRAINED_REGION = "west", "north"


@dataclass
class GameWorld:
    """The cluster, and the people and programs around it, on which the steps act."""

    cluster: RegionalCluster
    on_call: OnCall
    idle_owner: IdleOwner
    """The application that has the idle stream open."""
    disk: SmallDisk | None
    """The disk of the bookie ``full_bookie``."""
    lost_after_s: float

    full_bookie: str = "east-2"


def bookie_id(server: Server) -> str:
    """Return the id of a running bookie."""
    found = server.process.find(r"^bookie (\S+) serves ")
    assert found is not None, f"{server.name} has not started"
    return found


async def lose_disk(world: GameWorld) -> None:
    """The disk of a bookie is gone. It is decommissioned, and a new one takes its place."""
    cluster, on_call = world.cluster, world.on_call
    server = cluster.servers["east-1"]
    lost = bookie_id(server)
    on_call.inject(f"kill -9 {server.process.pid}; rm -r {server.directory}   # bookie {lost}")
    await cluster.kill([server])
    cluster.wipe(server)
    await on_call.until_alert("RhumblineBookieDown")
    await on_call.run("doctor")
    await on_call.run("durability")
    await on_call.must("node", "decommission", lost, seconds_max=DRAIN_S_MAX)
    await on_call.must(
        "bookie", "format", server.directory, "--name", server.name, "--region", server.region,
        "--rack", "r1",
    )  # fmt: skip
    on_call.by_hand(f"rhumbline bookie run {server.directory} --region {server.region} &")
    await cluster.start([server])


async def lose_idle_owner(world: GameWorld) -> None:
    """A machine fails for good with a bookie and the application that had an idle stream open."""
    cluster, on_call = world.cluster, world.on_call
    owner = world.idle_owner
    owner.write(IDLE_RECORDS)
    on_call.transcript.say(f"# the application appends {IDLE_RECORDS} records to {IDLE_STREAM}")
    await on_call.must("stream", "read", IDLE_STREAM, "--limit", str(owner.written), "--wait")
    segments = await on_call.json("segment", "ls", IDLE_STREAM)
    members = {bookie_id(server): server for server in cluster.bookies()}
    chosen = sorted(set(segments[-1]["bookies"]), key=lambda b: members[b].region != "north")[0]
    server = members[chosen]
    on_call.inject(
        f"kill -9 {owner.process.pid} {server.process.pid}"
        f"   # the owner of {IDLE_STREAM}, and bookie {chosen}"
    )
    owner.process.kill()
    await cluster.kill([server])
    await on_call.until_alert("RhumblineBookieDown")
    await on_call.run("durability")
    await on_call.run("segment", "ls", IDLE_STREAM)
    on_call.transcript.say(f"# {chosen} counts as lost after {world.lost_after_s:.0f} s; we wait")
    await _until_elsewhere(on_call, chosen)
    await on_call.run("segment", "ls", IDLE_STREAM)
    await on_call.run("durability", "--strict")
    on_call.by_hand(f"rhumbline bookie run {server.directory} --region {server.region} &")
    await cluster.start([server])


async def _has_copy(on_call: OnCall, bookie: str) -> bool:
    segments = await on_call.json("segment", "ls", IDLE_STREAM)
    return any(holds_data(segment) and bookie in segment["bookies"] for segment in segments)


def holds_data(segment: Mapping[str, Any]) -> bool:
    """Return whether a segment has copies: an empty one names bookies, and nothing moves."""
    return bool(segment["records"] != 0)


async def _until_elsewhere(on_call: OnCall, bookie: str) -> None:
    """Wait until no segment of the idle stream has a copy on this bookie."""
    on_call.waits_for = f"copies of {IDLE_STREAM} on other bookies than {bookie}"
    async with asyncio.timeout(DRAIN_S_MAX):
        while await _has_copy(on_call, bookie):  # noqa: ASYNC110 - observed from outside
            await asyncio.sleep(_POLL_S)
    on_call.acted_s = on_call.transcript.now_s()


async def lose_region(world: GameWorld) -> None:
    """All processes of a region end at once, the member of the metadata store included."""
    cluster, on_call = world.cluster, world.on_call
    servers = cluster.of_region(LOST_REGION)
    on_call.inject(f"kill -9 {' '.join(str(each.process.pid) for each in servers)}")
    on_call.transcript.say(f"# {', '.join(each.name for each in servers)}")
    await cluster.kill(servers)
    await on_call.until_alert("RhumblineRegionWithoutWritableBookie")
    await on_call.run("region", "ls")
    await on_call.run("doctor")
    await on_call.run("durability")
    on_call.by_hand(f"# the power of {LOST_REGION} is back: all of these processes are started")
    stores = [each for each in servers if not each.job]
    await cluster.start(stores)
    await cluster.start(each for each in servers if each.job)


async def fill_disk(world: GameWorld) -> None:
    """Another program fills the disk of a bookie. Old data is deleted, which must be enough."""
    cluster, on_call, disk = world.cluster, world.on_call, world.disk
    assert disk is not None
    server = cluster.servers[world.full_bookie]
    records = OLD_BYTES // OLD_RECORD_BYTES
    line = b"x" * OLD_RECORD_BYTES + b"\n"
    (cluster.folder / "old-backups.txt").write_bytes(line * records)
    await on_call.must("stream", "append", OLD_STREAM, "--file", "old-backups.txt")
    on_call.inject(
        f"fallocate {disk.filler.name} on the disk of {bookie_id(server)}"
        f"   # {LEFT_BYTES // MIB} of {SMALL_DISK_BYTES // MIB} MiB are left"
    )
    disk.fill(LEFT_BYTES)
    await on_call.until_alert("RhumblineBookieReadOnly")
    await on_call.run("doctor")
    await on_call.run("node", "ls")
    await on_call.must("stream", "delete", OLD_STREAM, "--yes")
    await on_call.until_cleared("RhumblineBookieReadOnly")
    on_call.by_hand(f"rm {disk.filler.name}")
    disk.remove_file()


async def drain_region(world: GameWorld) -> None:
    """All data is moved out of a region under load, and it returns to service."""
    on_call = world.on_call
    await on_call.must("region", "drain", DRAINED_REGION, seconds_max=DRAIN_S_MAX)
    await on_call.run("region", "ls")
    await on_call.run("node", "ls")
    await on_call.run("doctor")
    await on_call.must("region", "undrain", DRAINED_REGION)


Step = Callable[[GameWorld], Awaitable[None]]

STEPS: dict[str, Step] = {
    "lose-disk": lose_disk,
    "lose-idle-owner": lose_idle_owner,
    "lose-region": lose_region,
    "fill-disk": fill_disk,
    "drain-region": drain_region,
}
SHORT = ("lose-disk", "lose-idle-owner")
