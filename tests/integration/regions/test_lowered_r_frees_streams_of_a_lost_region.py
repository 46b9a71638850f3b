"""Two regions, streams 4/4/3/R2 under load, and one region is killed for good with its disks.

The steps are those of the guide "Survive a region outage": R is lowered, writers continue, a stream
without a writer is taken over, no acknowledged record is lost; then a third region is added, R is
raised, and repair spreads the copies again.
"""

import asyncio
import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from rhumbline import LogClient, LogWriter, connect
from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.core.log.config import WriterConfig
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.tests.support.processes.process_cluster import (
    ProcessCluster,
    rhumbline,
    succeeded,
)

SETTINGS = {"RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s"}
LIVE, OWNERLESS = ("live-0", "live-1"), "ownerless"
_TAKEOVER_S = 90

OWNER = """
import asyncio, sys
from rhumbline import LogClient, LogWriter, connect

async def main(uri, stream):
    async with connect(uri, region="left") as client, client.writer(stream) as writer:
        number = 0
        while True:
            tickets = []
            for _ in range(50):
                tickets.append((number, writer.append(b"%d" % number)))
                number += 1
            for n, ticket in tickets:
                await ticket
                print(n, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


class Load:
    """A writer that appends all the time; it opens another one when it fails."""

    def __init__(self, client: LogClient, stream: str) -> None:
        self.acked: list[bytes] = []
        self.failures: list[str] = []
        self._client = client
        self._stream = stream
        self._number = 0
        self.is_stopping = False

    async def run(self) -> None:
        while not self.is_stopping:
            try:
                async with self._client.writer(self._stream) as writer:
                    await self._append(writer)
            except RhumblineError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.2)

    async def _append(self, writer: LogWriter) -> None:
        while not self.is_stopping:
            payloads = [b"%s/%d" % (self._stream.encode(), self._number + n) for n in range(20)]
            self._number += len(payloads)
            tickets = [writer.append(payload) for payload in payloads]
            for payload, ticket in zip(payloads, tickets, strict=True):
                await ticket
                self.acked.append(payload)
            await asyncio.sleep(0.002)

    async def wait_progress(self, timeout_s: float) -> float:
        """Wait for acknowledgements of appends that were called after now."""
        first, since = self._number, time.monotonic()
        name = self._stream.encode()
        while not self.acked or int(self.acked[-1].removeprefix(name + b"/")) < first:
            assert time.monotonic() - since < timeout_s, (self._stream, self.failures[-3:])
            await asyncio.sleep(0.05)
        return time.monotonic() - since


class Ownerless(ManagedProcess):
    """A process that writes a stream until it is killed in the middle of its appends."""

    def __init__(self, cluster: ProcessCluster, directory: Path) -> None:
        script = directory / "owner.py"
        script.write_text(OWNER)
        super().__init__(
            "owner",
            [sys.executable, str(script), cluster.metadata, OWNERLESS],
            directory / "owner.out",
            ready_s_max=30,
        )

    def acked(self) -> list[bytes]:
        return [line for line in self.log.read_bytes().split(b"\n")[:-1] if line.isdigit()]

    def is_ready(self) -> bool:
        return len(self.acked()) >= 2_000


async def read_all(client: LogClient, stream: str) -> list[bytes]:
    end = await client.namespace().end(stream)
    found: list[bytes] = []
    async with client.reader(stream) as reader:
        while (batch := await reader.next_batch(until=end)) is not None:
            found.extend(batch.payloads())
    return found


def lose(bookies: list[BookieProcess]) -> None:
    """Kill the bookies of a region at once, and destroy their disks."""
    for bookie in bookies:
        bookie.kill()
        shutil.rmtree(bookie.directory)


def add_region(cluster: ProcessCluster, region: str) -> None:
    for number in range(3):
        name = f"{region}{number}"
        bookie = BookieProcess(cluster.root / name, cluster.metadata, environ=SETTINGS)
        succeeded(
            "bookie", "format", str(bookie.directory), "--name", name,
            "--region", region, "-u", cluster.metadata,
        )  # fmt: skip
        cluster.bookies.append(bookie)
        bookie.start()


def recorded_rs(cluster: ProcessCluster, stream: str) -> set[int]:
    """Return the values of R that `durability` reports for the entries of a stream."""
    rows = json.loads(cluster.run("segment", "ls", stream, "--output", "json"))
    return {int(r) for row in rows for r in row["min_regions_for_durability"].values()}


async def scenario(cluster: ProcessCluster, tmp_path: Path) -> None:
    streams = (*LIVE, OWNERLESS)
    for stream in streams:
        cluster.run("stream", "create", stream, "--quorum", "4/4/3/2")
    owner = Ownerless(cluster, tmp_path)
    owner.launch()
    config = WriterConfig(failover_ms_max=5_000)
    async with connect(cluster.metadata, region="left", writer=config) as client:
        loads = [Load(client, stream) for stream in LIVE]
        async with asyncio.TaskGroup() as group:
            for load in loads:
                group.create_task(load.run())
            await asyncio.to_thread(owner.wait_ready)
            for load in loads:
                await load.wait_progress(30)
            # One region is lost with entries in flight; the owner of a stream dies with it.
            await asyncio.to_thread(lose, cluster.bookies[3:])
            owner.kill()
            await asyncio.sleep(1)
            stuck = [len(load.acked) for load in loads]
            # The guide: lower R of a stream for what is written from now on.
            await asyncio.to_thread(
                cluster.run, "stream", "set-policy", LIVE[0], "--quorum", "3/3/2/1"
            )
            resumed_s = await loads[0].wait_progress(_TAKEOVER_S)
            assert len(loads[1].acked) == stuck[1], "R of the other stream is still 2"
            for stream in streams[1:]:
                await asyncio.to_thread(
                    cluster.run, "stream", "set-policy", stream, "--quorum", "3/3/2/1"
                )
            await loads[1].wait_progress(_TAKEOVER_S)
            print(f"appends were acknowledged {resumed_s:.1f} s after R was lowered")
            # A stream without a writer is taken over.
            began = time.monotonic()
            done = await asyncio.to_thread(
                rhumbline, "stream", "append", OWNERLESS, *cluster.options(),
                stdin=b"after the loss\n", timeout_s=_TAKEOVER_S,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr.decode()
            print(f"the takeover took {time.monotonic() - began:.1f} s")
            assert 1 in recorded_rs(cluster, OWNERLESS)
            # A new region, R as before: live writers and repair spread the data.
            await asyncio.to_thread(add_region, cluster, "new")
            for stream in streams:
                await asyncio.to_thread(
                    cluster.run, "stream", "set-policy", stream, "--quorum", "4/4/3/2"
                )
            for load in loads:
                await load.wait_progress(_TAKEOVER_S)
            await asyncio.sleep(8)  # the bound within which a live writer has raised R
            for load in loads:
                load.is_stopping = True
        await spread_again(cluster, streams, tmp_path)
        for load, stream in zip(loads, LIVE, strict=True):
            found = await read_all(client, stream)
            missing = dict.fromkeys(load.acked)
            for payload in found:
                missing.pop(payload, None)
            assert not missing, f"{stream}: {len(missing)} acknowledged records are lost"
        found = await read_all(client, OWNERLESS)
        acked = owner.acked()
        assert found[: len(acked)] == acked
        assert found[-1] == b"after the loss"


async def spread_again(cluster: ProcessCluster, streams: tuple[str, ...], tmp_path: Path) -> None:
    """Run repair until every entry of every segment is recorded under R = 2 again."""
    command = rhumbline_command(
        "repair", "run", "--lost-after", "1s", "--audit-interval", "1s", *cluster.options()
    )
    with ManagedProcess("repair", command, tmp_path / "repair.log"):
        deadline = time.monotonic() + 120
        for stream in streams:
            while await asyncio.to_thread(recorded_rs, cluster, stream) != {2}:
                tasks = await asyncio.to_thread(cluster.run, "repair", "ls")
                assert time.monotonic() < deadline, tasks.decode()
                await asyncio.sleep(1)
        await asyncio.to_thread(cluster.run, "repair", "ls", "--wait", "--timeout", "60s")
    cluster.run("durability", "--lose", "left", "--strict")


@pytest.mark.long
@pytest.mark.timeout(400)
def test_lowered_r_frees_every_stream_and_a_raised_one_spreads_its_data(tmp_path: Path) -> None:
    regions = ("left", "left", "left", "right", "right", "right")
    with ProcessCluster(tmp_path / "cluster", regions, environ=SETTINGS) as cluster:
        asyncio.run(scenario(cluster, tmp_path))
