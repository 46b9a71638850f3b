"""A region is cut off from the others, and readers are started in it meanwhile.

``python -m rhumbline.chaos.lab.partition.cut_off_region --cut 600`` plays it with real processes:
in each of three regions a member of etcd and a bookie, a writer in the first region, and in the
third one a reader that follows and readers that start one after the other. The regions are networks
of their own (root is needed). The results are printed, and ``--plot`` draws the time line.

The stream has a copy of each entry in each region. During the cut, readers of the third region must
get every record that was acknowledged before the cut, in order and without a gap, and nothing else.
After the cut everything agrees.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....client.system_runtime import run
from ...managed_process import ManagedProcess, python_command, rhumbline_command
from ..wan.cluster import SERVERS
from ..wan.metadata.etcd import etcd_binary
from .programs import STREAM
from .region_networks import RegionNetworks
from .time_line import draw_time_line

REGIONS = ("east", "north", "west")
CUT_OFF = "west"
WARM_UP_S = 8.0
AFTER_S = 12.0
EDGE_S = 1.5
"""Records that are acknowledged this shortly before the cut may still become visible after it."""

_CLIENT_PORT, _PEER_PORT, _BOOKIE_PORT = 2379, 2380, 3181
_PROCESS_S_MAX = 60.0
"""Time in which a reader or a command must end."""

DuringCut = Callable[["CutOffRegion"], Coroutine[Any, Any, None]]


@dataclass
class CutOffResult:
    """The times in seconds since the start, and what the programs reported."""

    cut_s: float = 0.0
    healed_s: float = 0.0
    acked: list[tuple[float, int]] = field(default_factory=list)
    """(time, number) of each acknowledged record."""
    followed: list[tuple[float, int]] = field(default_factory=list)
    """(time, number of the last record) of each batch that the following reader got."""
    reads: list[dict[str, Any]] = field(default_factory=list)
    """The report of each reader that was started, with its region."""

    def faults(self) -> list[str]:
        """Return what is wrong; empty if all is well."""
        found = []
        known = max((n for at, n in self.acked if at < self.cut_s - EDGE_S), default=-1)
        limit = max((n for at, n in self.acked if at < self.cut_s), default=-1)
        last = max(number for _, number in self.acked)
        during = [read for read in self.reads if self.cut_s < read["began"] < self.healed_s]
        for read in self.reads:
            name = f"the reader of {read['region']} at {read['began']:.1f} s"
            if "last" not in read:
                found.append(f"{name} did not end: {read}")
            elif read["first"] != 0 or read["count"] != read["last"] + 1:
                found.append(f"{name} has a gap: {read}")
            elif read in during and not known <= read["last"] <= limit + 1:
                found.append(f"{name} got {read['last']}, expected {known} to {limit}")
            elif read in during and read["age_ms"] is None:
                found.append(f"{name} did not report that its metadata may be old")
            elif read["began"] > self.healed_s and (
                read["last"] < last or read["age_ms"] is not None
            ):
                found.append(f"{name} does not agree after the cut: {read}, written {last}")
        if not during:
            found.append("no reader was started during the cut")
        after = [number for at, number in self.followed if at > self.healed_s]
        if max(after, default=-1) < last:
            found.append(f"the following reader got {max(after, default=-1)} of {last}")
        numbers = [number for _, number in self.followed]
        if numbers != sorted(set(numbers)):
            found.append("the following reader went back")
        return found


class CutOffRegion:
    """The processes of one run. Their files stay in ``folder``."""

    def __init__(self, networks: RegionNetworks, folder: Path) -> None:
        self.networks = networks
        self.folder = folder
        self.result = CutOffResult()
        self.during_cut: list[DuringCut] = []
        """Further work during the cut, for example in namespaces of a store of the region."""
        self._processes: list[ManagedProcess] = []
        self._began = time.monotonic()

    def uri(self, region: str) -> str:
        """Return the URI of the metadata store for a region, whose own member comes first."""
        near_first = sorted(REGIONS, key=lambda other: other != region)
        hosts = [f"{self.networks.address(each)}:{_CLIENT_PORT}" for each in near_first]
        return f"etcd://{','.join(hosts)}/lab"

    def launch(self, region: str, name: str, command: Sequence[str], ready: str) -> ManagedProcess:
        """Start a process in a region. Its output is in a file."""
        process = ManagedProcess(
            name,
            self.networks.command(region, command),
            self.folder / f"{name}.log",
            ready=ready,
            cwd=self.folder,
        )
        process.launch()
        self._processes.append(process)
        return process

    async def run_command(self, region: str, name: str, *arguments: str) -> None:
        """Run a command of ``rhumbline`` in a region to its end."""
        await self._run(region, name, rhumbline_command(*arguments))

    async def start(self) -> None:
        """Start the metadata store, the bookies, the writer and the following reader."""
        addresses = {region: self.networks.address(region) for region in REGIONS}
        peers = ",".join(f"{r}=http://{a}:{_PEER_PORT}" for r, a in addresses.items())
        members = []
        for region, address in addresses.items():
            client, peer = f"http://{address}:{_CLIENT_PORT}", f"http://{address}:{_PEER_PORT}"
            command = [
                str(etcd_binary(SERVERS)), f"--name={region}", f"--data-dir=etcd-{region}",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={peers}", "--heartbeat-interval=100",
                "--election-timeout=1000",
            ]  # fmt: skip
            members.append(self.launch(region, f"etcd-{region}", command, "ready to serve"))
        for member in members:
            await asyncio.to_thread(member.wait_ready)
        first = REGIONS[0]
        await self.run_command(first, "init", "cluster", "init", "-u", self.uri(first))
        await self.run_command(
            first, "namespace", "namespace", "create", "default", "-u", self.uri(first),
            "--quorum", "3/3/2/2", "--roll-time", "4s",
        )  # fmt: skip
        for region, address in addresses.items():
            at = ["-u", self.uri(region), "--region", region]
            await self.run_command(
                region, f"format-{region}", "bookie", "format", f"bookie-{region}", *at,
                "--name", region,
            )  # fmt: skip
            command = rhumbline_command(
                "bookie", "run", f"bookie-{region}", *at, "--host", address,
                "--port", str(_BOOKIE_PORT),
            )  # fmt: skip
            bookie = self.launch(region, f"bookie-{region}", command, "serves|listening|ready")
            await asyncio.to_thread(bookie.wait_ready)
        await self.run_command(
            first, "stream", "stream", "create", STREAM, "-u", self.uri(first), "--region", first
        )
        for role, region in (("write", first), ("follow", CUT_OFF)):
            command = python_command("chaos.lab.partition.programs", role, self.uri(region), region)
            await asyncio.to_thread(self.launch(region, role, command, '"ready"').wait_ready)

    async def play(self, cut_s: float, read_every_s: float) -> CutOffResult:
        """Play the cut, and return what happened."""
        await self.start()
        self._began, result = time.monotonic(), self.result
        await asyncio.sleep(WARM_UP_S)
        await self._read(CUT_OFF)
        result.cut_s = self._now_s()
        self.networks.cut(CUT_OFF)
        further = [asyncio.create_task(work(self)) for work in self.during_cut]
        end_s = result.cut_s + cut_s
        while self._now_s() < end_s:
            next_s = self._now_s() + read_every_s
            await self._read(CUT_OFF)
            await asyncio.sleep(max(0.0, min(next_s, end_s) - self._now_s()))
        self.networks.heal(CUT_OFF)
        result.healed_s = self._now_s()
        await asyncio.gather(*further)
        await asyncio.sleep(AFTER_S)
        self._process("write").kill()
        await asyncio.sleep(EDGE_S)
        result.acked = self._times_of("write", "acked")
        for region in REGIONS:
            await self._read(region)
        result.followed = [(at, got[1]) for at, got in self._times_of("follow", "got")]
        return result

    def close(self) -> None:
        """Kill all processes. Safe to repeat."""
        for process in reversed(self._processes):
            process.kill()

    async def _read(self, region: str) -> None:
        """Start a reader, wait for its end, and record what it reported."""
        began, name = self._now_s(), f"read-{len(self.result.reads)}"
        command = python_command("chaos.lab.partition.programs", "read", self.uri(region), region)
        await self._run(region, name, command)
        report: dict[str, Any] = {"region": region, "began": began, "ended": self._now_s()}
        for line in self._lines(name):
            report.update(line)
        self.result.reads.append(report)
        print(json.dumps(report), flush=True)

    async def _run(self, region: str, name: str, command: Sequence[str]) -> None:
        process = self.launch(region, name, command, "")
        await asyncio.to_thread(process.wait, _PROCESS_S_MAX)

    def _process(self, name: str) -> ManagedProcess:
        return next(process for process in self._processes if process.name == name)

    def _now_s(self) -> float:
        return time.monotonic() - self._began

    def _lines(self, name: str) -> list[dict[str, Any]]:
        text = (self.folder / f"{name}.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def _times_of(self, name: str, kind: str) -> list[tuple[float, Any]]:
        return [(at["at"] - self._began, at[kind]) for at in self._lines(name) if kind in at]


async def main() -> None:
    """Play the cut, print the results and draw the time line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cut", type=float, default=600.0, help="seconds of the cut")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two readers")
    parser.add_argument("--plot", type=Path, help="draw the time line into this SVG file")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rhumbline-cut-off-"))
    networks = RegionNetworks(REGIONS)
    region = CutOffRegion(networks, folder)
    try:
        result = await region.play(given.cut, given.every)
    finally:
        region.close()
        networks.close()
    during = [r for r in result.reads if result.cut_s < r["began"] < result.healed_s]
    print(f"cut for {result.healed_s - result.cut_s:.0f} s; {len(during)} readers were started")
    print(f"{len(result.acked)} records were acknowledged; faults: {result.faults() or 'none'}")
    if given.plot is not None:
        given.plot.write_text(draw_time_line(result))
    sys.exit(1 if result.faults() else 0)


if __name__ == "__main__":
    run(main())
