"""Text written to real processes is read back byte for byte, although a bookie is killed."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

import pytest

from rhumbline import LogClient, connect
from rhumbline.tests.support.fakes import real_text
from rhumbline.tests.support.processes.process_cluster import ProcessCluster

MEGABYTES = 200
LINES_PER_APPEND = 500
SHORT_SESSIONS = {"RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s"}


async def append_text(client: LogClient, cluster: ProcessCluster) -> tuple[int, str]:
    """Append all text; one bookie is killed after a third and restarted after two thirds."""
    victim = cluster.bookies[1]
    digest, count, size = hashlib.sha256(), 0, 0
    lines = real_text.lines(MEGABYTES * 1_000_000)
    loop = asyncio.get_running_loop()
    steps = [(MEGABYTES * 333_000, victim.kill), (MEGABYTES * 666_000, victim.start)]
    async with client.writer("text") as writer:
        while batch := list(islice(lines, LINES_PER_APPEND)):
            writer.append_many(batch)
            await writer.room()
            data = b"".join(batch)
            digest.update(data)
            count += len(batch)
            size += len(data)
            if steps and size > steps[0][0]:
                await loop.run_in_executor(None, steps.pop(0)[1])
        await writer.flush()
    assert not steps
    return count, digest.hexdigest()


async def payloads(client: LogClient, count: int) -> AsyncIterator[list[bytes]]:
    async with client.reader("text") as reader:
        async for batch in reader.batches():
            yield batch.payloads()
            count -= len(batch)
            if count <= 0:
                return


async def write_and_read_back(cluster: ProcessCluster) -> None:
    async with asyncio.timeout(240):
        async with connect(cluster.metadata, region="a") as client:
            count, digest = await append_text(client, cluster)
        async with connect(cluster.metadata, region="b") as client:
            seen, found = 0, hashlib.sha256()
            async for batch in payloads(client, count):
                seen += len(batch)
                found.update(b"".join(batch))
    assert (seen, found.hexdigest()) == (count, digest)


@pytest.mark.timeout(300)
def test_text_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=SHORT_SESSIONS) as cluster:
        cluster.run("stream", "create", "text")
        asyncio.run(write_and_read_back(cluster))
