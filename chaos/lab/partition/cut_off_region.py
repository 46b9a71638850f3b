"""A region is cut off from the others, and readers are started in it meanwhile.

``python -m rhumbline.chaos.lab.partition.cut_off_region --cut 600`` plays it with real processes:
in each of three regions a member of etcd and a bookie, a writer in the first region, and in the
third one a reader that follows and readers that start one after the other. The regions are networks
of their own (root is needed). The results are printed, and ``--plot`` draws the time line.

The stream has a copy of each entry in each region. During the cut, readers of the third region must
get every record that was acknowledged before the cut, in order and without a gap, and nothing else.
After the cut everything agrees.

The third region also has a metadata store of its own and a second bookie, for a namespace of that
store. A writer in the region appends to a stream of the namespace all the time, and must not notice
the cut. Readers that start there during the cut must get all that was acknowledged before them.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ....client.system_runtime import run
from ....core.protocol.errors import UnavailableError
from ...managed_process import ManagedProcess, python_command, rhumbline_command
from ..wan.cluster import SERVERS
from ..wan.metadata.etcd import etcd_binary
from .programs import LOCAL_NAMESPACE, NAMESPACE, STREAM
from .region_networks import RegionNetworks
from .time_line import draw_time_line

REGIONS = ("east", "north", "west")
CUT_OFF = "west"
BOOKIES = {"east": "east", "north": "north", "west": "west", "west-2": "west"}
"""The region of each bookie."""

WARM_UP_S = 8.0
AFTER_S = 12.0
EDGE_S = 1.5
"""Records that are acknowledged this shortly before the cut may still become visible after it."""

LOCAL_GAP_S_MAX = 5.0
"""Longest time without an acknowledgement in the namespace of the region that is cut off."""

_CLIENT_PORT, _PEER_PORT = 2379, 2380
_LOCAL_CLIENT_PORT, _LOCAL_PEER_PORT = 2479, 2480
_BOOKIE_PORTS = {name: 3181 + number for number, name in enumerate(BOOKIES)}
_PROCESS_S_MAX = 60.0
"""Time in which a reader or a command must end."""


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
    local_acked: list[tuple[float, int]] = field(default_factory=list)
    """As ``acked``, in the namespace of the region that is cut off."""
    local_reads: list[dict[str, Any]] = field(default_factory=list)
    """As ``reads``, in the namespace of the region that is cut off."""

    def local_gap_s(self) -> float:
        """Return the longest time of the cut without an acknowledgement in ``local_acked``."""
        inside = (at for at, _ in self.local_acked if self.cut_s < at < self.healed_s)
        times = [self.cut_s, *inside, self.healed_s]
        return max(after - before for before, after in pairwise(times))

    def faults(self) -> list[str]:
        """Return what is wrong; empty if all is well."""
        return [*self._faults(), *self._local_faults()]

    def _faults(self) -> list[str]:
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

    def _local_faults(self) -> list[str]:
        found = []
        if (gap_s := self.local_gap_s()) > LOCAL_GAP_S_MAX:
            found.append(f"nothing was acknowledged in {CUT_OFF} for {gap_s:.1f} s of the cut")
        for read in self.local_reads:
            name = f"the reader of {CUT_OFF}'s namespace in {read['region']}"
            known = max((n for at, n in self.local_acked if at < read["began"]), default=-1)
            if "last" not in read:
                found.append(f"{name} did not end: {read}")
            elif read["first"] != 0 or read["count"] != read["last"] + 1:
                found.append(f"{name} has a gap: {read}")
            elif read["last"] < known:
                found.append(f"{name} got {read['last']} of {known} at {read['began']:.1f} s")
            elif read["age_ms"] is not None:
                found.append(f"{name} reported that its metadata may be old: {read}")
        began = [read["began"] for read in self.local_reads]
        if not any(self.cut_s < at < self.healed_s for at in began):
            found.append(f"no reader of {CUT_OFF}'s namespace was started during the cut")
        if not any(at > self.healed_s for at in began):
            found.append(f"no reader of {CUT_OFF}'s namespace was started after the cut")
        return found


class CutOffRegion:
    """The processes of one run. Their files stay in ``folder``."""

    def __init__(self, networks: RegionNetworks, folder: Path) -> None:
        self.networks = networks
        self.folder = folder
        self.result = CutOffResult()
        self.local_uri = f"etcd://{networks.address(CUT_OFF)}:{_LOCAL_CLIENT_PORT}/local"
        """The URI of the regional metadata store of the region that is cut off."""
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
            environ={f"RHUMBLINE_CLUSTER__REGIONAL_METADATA__{CUT_OFF.upper()}": self.local_uri},
        )
        process.launch()
        self._processes.append(process)
        return process

    async def start(self) -> None:
        """Start the metadata stores, the bookies, the writers and the following reader."""
        peers = {f"etcd-{r}": self._url(r, _PEER_PORT) for r in REGIONS}
        members = [self._launch_etcd(r, f"etcd-{r}", _CLIENT_PORT, peers) for r in REGIONS]
        own = {"etcd-local": self._url(CUT_OFF, _LOCAL_PEER_PORT)}
        members.append(self._launch_etcd(CUT_OFF, "etcd-local", _LOCAL_CLIENT_PORT, own))
        for member in members:
            await asyncio.to_thread(member.wait_ready)
        first = REGIONS[0]
        await self._command(first, "init", "cluster", "init")
        await self._command(first, "join-store", "cluster", "join-store", CUT_OFF)
        await asyncio.gather(
            self._command(
                first, "namespace", "namespace", "create", NAMESPACE,
                "--quorum", "3/3/2/2", "--roll-time", "4s",
            ),
            self._command(
                first, "namespace-local", "namespace", "create", LOCAL_NAMESPACE,
                "--store", CUT_OFF, "--quorum", "2/2/2/1", "--roll-time", "4s",
            ),
            *(self._start_bookie(name, region) for name, region in BOOKIES.items()),
        )  # fmt: skip
        await asyncio.gather(
            self._command(first, "stream", "stream", "create", STREAM, "-n", NAMESPACE),
            self._command(CUT_OFF, "stream-local", "stream", "create", STREAM,
                          "-n", LOCAL_NAMESPACE),
        )  # fmt: skip
        programs = [
            self._launch_program(first, "write", "write", NAMESPACE),
            self._launch_program(CUT_OFF, "write-local", "write", LOCAL_NAMESPACE),
            self._launch_program(CUT_OFF, "follow", "follow", NAMESPACE),
        ]
        for program in programs:
            await asyncio.to_thread(program.wait_ready)

    async def play(self, cut_s: float, read_every_s: float) -> CutOffResult:
        """Play the cut, and return what happened."""
        await self.start()
        self._began, result = time.monotonic(), self.result
        await asyncio.sleep(WARM_UP_S)
        await self._read_all(CUT_OFF)
        result.cut_s = self._now_s()
        self.networks.cut(CUT_OFF)
        end_s = result.cut_s + cut_s
        while self._now_s() < end_s:
            next_s = self._now_s() + read_every_s
            await self._read_all(CUT_OFF)
            await asyncio.sleep(max(0.0, min(next_s, end_s) - self._now_s()))
        self.networks.heal(CUT_OFF)
        result.healed_s = self._now_s()
        await asyncio.sleep(AFTER_S)
        for name in ("write", "write-local"):
            self._process(name).kill()
        await asyncio.sleep(EDGE_S)
        result.acked = self._times_of("write", "acked")
        result.local_acked = self._times_of("write-local", "acked")
        for region in REGIONS:
            await self._read_all(region)
        result.followed = [(at, got[1]) for at, got in self._times_of("follow", "got")]
        return result

    def close(self) -> None:
        """Kill all processes. Safe to repeat."""
        for process in reversed(self._processes):
            process.kill()

    async def _read_all(self, region: str) -> None:
        """Start a reader of each namespace, and wait for their ends."""
        number = len(self.result.reads)
        await asyncio.gather(
            self._read(region, f"read-{number}", NAMESPACE, self.result.reads),
            self._read(region, f"read-local-{number}", LOCAL_NAMESPACE, self.result.local_reads),
        )

    async def _read(
        self, region: str, name: str, namespace: str, reads: list[dict[str, Any]]
    ) -> None:
        """Start a reader, wait for its end, and append its report to ``reads``."""
        began = self._now_s()
        process = self._launch_program(region, name, "read", namespace)
        with suppress(UnavailableError):  # it did not end in time: its report is not complete
            await asyncio.to_thread(process.wait, _PROCESS_S_MAX)
        process.kill()
        report = {"region": region, "namespace": namespace, "began": began}
        report["ended"] = self._now_s()
        for line in self._lines(name):
            report.update(line)
        reads.append(report)
        print(json.dumps(report), flush=True)

    def _launch_program(self, region: str, name: str, role: str, namespace: str) -> ManagedProcess:
        command = python_command(
            "chaos.lab.partition.programs", role, self.uri(region), region, namespace,
            CUT_OFF, self.local_uri,
        )  # fmt: skip
        return self.launch(region, name, command, '"ready"')

    def _launch_etcd(
        self, region: str, name: str, port: int, peers: dict[str, str]
    ) -> ManagedProcess:
        client, peer = self._url(region, port), peers[name]
        command = [
            str(etcd_binary(SERVERS)), f"--name={name}", f"--data-dir={name}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={','.join(f'{each}={url}' for each, url in peers.items())}",
            "--heartbeat-interval=100", "--election-timeout=1000",
        ]  # fmt: skip
        return self.launch(region, name, command, "ready to serve")

    async def _start_bookie(self, name: str, region: str) -> None:
        """Format a bookie and start it."""
        folder = f"bookie-{name}"
        await self._command(region, f"format-{name}", "bookie", "format", folder, "--name", name)
        command = rhumbline_command(
            "bookie", "run", folder, "-u", self.uri(region), "--region", region,
            "--host", self.networks.address(region), "--port", str(_BOOKIE_PORTS[name]),
            "--set", "security.insecure_network=true",
        )  # fmt: skip
        bookie = self.launch(region, folder, command, "serves|listening|ready")
        await asyncio.to_thread(bookie.wait_ready)

    async def _command(self, region: str, name: str, *arguments: str) -> None:
        """Run a command of ``rhumbline`` in a region to its end."""
        at = ("-u", self.uri(region), "--region", region)
        process = self.launch(region, name, rhumbline_command(*arguments, *at), "")
        await asyncio.to_thread(process.wait, _PROCESS_S_MAX)

    def _url(self, region: str, port: int) -> str:
        return f"http://{self.networks.address(region)}:{port}"

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
    print(f"{len(result.acked)} records were acknowledged")
    print(
        f"{len(result.local_acked)} records were acknowledged in the namespace of {CUT_OFF}, with "
        f"gaps of at most {result.local_gap_s():.2f} s during the cut"
    )
    print(f"faults: {result.faults() or 'none'}")
    if given.plot is not None:
        given.plot.write_text(draw_time_line(result))
    sys.exit(1 if result.faults() else 0)


if __name__ == "__main__":
    run(main())
