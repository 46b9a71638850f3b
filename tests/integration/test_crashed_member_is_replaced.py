"""A member of a group whose process is killed is replaced within two seconds, by a setting."""

import asyncio
import signal
import sys
import time
from pathlib import Path

import rhumbline
from rhumbline.tests.support.processes.background_cluster import REGION, BackgroundCluster
from rhumbline.topics import GroupConfig, GroupMember, Topics

SESSION_MS = 1_500
NOTICED_S_MAX = 2.0 + 1.0
"""Two seconds, and what a busy machine may take longer."""

MEMBER = """
import asyncio, sys
import rhumbline
from rhumbline.topics import GroupConfig, Topics

async def main():
    async with rhumbline.connect(sys.argv[1], namespace="test", region=sys.argv[2]) as client:
        config = GroupConfig(session_ttl_ms=int(sys.argv[3]), member_name="crashes")
        async with Topics(client).join("jobs", "workers", config=config) as member:
            async for delivery in member:
                print(delivery.partition, flush=True)

asyncio.run(main())
"""


async def until_partitions(member: GroupMember, count: int) -> None:
    async with asyncio.timeout(20):
        while len(member.partitions) != count:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def replace_a_killed_member(uri: str) -> float:
    """Return how long the survivor waited for the partitions of the killed member."""
    async with rhumbline.connect(uri, namespace="test", region=REGION) as client:
        topics = Topics(client)
        await topics.create("jobs", 4)
        config = GroupConfig(session_ttl_ms=SESSION_MS)
        async with topics.join("jobs", "workers", config=config) as survivor:
            await until_partitions(survivor, 4)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", MEMBER, uri, REGION, str(SESSION_MS)
            )
            try:
                await until_partitions(survivor, 2)
                described = await topics.describe_group("jobs", "workers")
                assert any(member.startswith("crashes.") for member in described.members)
                await asyncio.sleep(0.5)
            finally:
                process.send_signal(signal.SIGKILL)
                await process.wait()
            killed_at = time.monotonic()
            await until_partitions(survivor, 4)
            return time.monotonic() - killed_at


def test_killed_member_is_replaced_within_two_seconds(tmp_path: Path) -> None:
    with BackgroundCluster(tmp_path) as cluster:
        waited_s = asyncio.run(replace_a_killed_member(cluster.metadata_uri))
    print(f"replaced after {waited_s:.2f} s")
    assert waited_s < NOTICED_S_MAX
