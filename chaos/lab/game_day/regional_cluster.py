"""The servers of a game day: three regions of processes, each on loopback addresses of its own."""

import asyncio
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ....core.bookie.config import MIB
from ...managed_process import ManagedProcess, rhumbline_command
from ..ports import free_port
from ..wan.metadata.etcd import etcd_binary

REGIONS = ("east", "north", "west")
BOOKIES_PER_REGION = 2
CONFIG = "rhumbline.toml"
"""The settings of all processes, in the folder in which they run."""

SESSION_TTL_MS = 6_000
"""Longer than the default of proxies, because two slow cores run the whole cluster."""

LOG_FILE_BYTES = 4 * MIB


@dataclass
class Server:
    """A process of the cluster that Prometheus scrapes, or a member of the metadata store."""

    name: str
    region: str
    job: str
    """Its job in Prometheus; empty for the metadata store."""
    status_address: str
    process: ManagedProcess

    @property
    def directory(self) -> str:
        """The directory of a bookie, relative to the folder of the cluster."""
        return f"data/{self.name}"


class RegionalCluster:
    """All servers. Their files stay in ``folder``."""

    def __init__(
        self, folder: Path, servers: Path, *, metadata: str, scale: float, grace_ms: int
    ) -> None:
        """``grace_ms`` is the time after which a silent writer is taken over."""
        self.folder = folder
        self.servers: dict[str, Server] = {}
        self.proxies: list[str] = []
        """host:port of each write proxy."""
        self._metadata = metadata
        self._peers = {r: f"http://{_host(r, 100)}:{free_port()}" for r in REGIONS}
        self._clients = {r: f"{_host(r, 100)}:{free_port()}" for r in REGIONS}
        (folder / "data").mkdir()
        if metadata == "etcd":
            for region in REGIONS:
                self._add_etcd(region, str(etcd_binary(servers)))
            self.uri = f"etcd://{','.join(self._clients.values())}/gameday"
        else:
            self.uri = f"sqlite://{folder}/metadata.db"
        for region in REGIONS:
            for number in range(1, BOOKIES_PER_REGION + 1):
                self._add_bookie(region, number)
            self._add_proxy(region)
            self._add_repair(region, scale, grace_ms)
        (folder / CONFIG).write_text(self._settings())

    def _settings(self) -> str:
        return f"""\
[cluster]
metadata = "{self.uri}"
region = "{REGIONS[0]}"

[bookie]
session_ttl_ms = "{SESSION_TTL_MS}ms"
log_file_bytes = "{LOG_FILE_BYTES}"
space_check_ms = "1s"
maintenance_ms = "2s"
collect_ms = "10s"

[proxy]
session_ttl_ms = "{SESSION_TTL_MS}ms"
"""

    def _add(
        self, name: str, region: str, job: str, status: str, command: list[str], ready: str
    ) -> None:
        log = self.folder / f"{name}.log"
        process = ManagedProcess(
            name, command, log, ready=ready, ready_s_max=120.0, cwd=self.folder
        )
        self.servers[name] = Server(name, region, job, status, process)

    def _add_etcd(self, region: str, binary: str) -> None:
        name = f"etcd-{region}"
        client, peer = f"http://{self._clients[region]}", self._peers[region]
        everyone = ",".join(f"etcd-{each}={url}" for each, url in self._peers.items())
        command = [
            binary, f"--name={name}", f"--data-dir=data/{name}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={everyone}",
            "--heartbeat-interval=200", "--election-timeout=2000",
        ]  # fmt: skip
        self._add(name, region, "", "", command, "ready to serve")

    def _add_bookie(self, region: str, number: int) -> None:
        name, host, status = f"{region}-{number}", _host(region, number), free_port()
        command = rhumbline_command(
            "bookie", "run", f"data/{name}", "--region", region, "--host", host,
            "--port", str(free_port()), "--status-port", str(status),
        )  # fmt: skip
        self._add(
            name, region, "rhumbline-bookie", f"{host}:{status}", command, r"^bookie \S+ serves "
        )

    def _add_proxy(self, region: str) -> None:
        host, port, status = _host(region, 50), free_port(), free_port()
        command = rhumbline_command(
            "write-proxy", "--region", region, "--host", host, "--port", str(port),
            "--status-port", str(status),
        )  # fmt: skip
        self.proxies.append(f"{host}:{port}")
        name = f"proxy-{region}"
        self._add(name, region, "rhumbline-proxy", f"{host}:{status}", command, "proxy serves at ")

    def _add_repair(self, region: str, scale: float, grace_ms: int) -> None:
        host, status = _host(region, 60), free_port()
        command = rhumbline_command(
            "repair", "run", "--region", region, "--host", host, "--status-port", str(status),
            "--lost-after", f"{round(300 / scale)}s", "--audit-interval", "5s",
            "--set", "repair.durability_interval_ms=3s", "--set", "repair.lag_interval_ms=5s",
            "--set", f"repair.ownerless_grace_ms={grace_ms}ms",
        )  # fmt: skip
        name = f"repair-{region}"
        self._add(name, region, "rhumbline-repair", f"{host}:{status}", command, "repairing")

    def bookies(self) -> list[Server]:
        """Return the bookies."""
        return [each for each in self.servers.values() if each.job == "rhumbline-bookie"]

    def of_region(self, region: str) -> list[Server]:
        """Return all servers of a region, the metadata store's member first."""
        return [each for each in self.servers.values() if each.region == region]

    def stores(self) -> list[Server]:
        """Return the members of the metadata store; none if it is a file."""
        return [each for each in self.servers.values() if not each.job]

    def targets(self) -> list[tuple[str, str, str]]:
        """Return what Prometheus scrapes: (job, instance, address)."""
        return [(s.job, s.name, s.status_address) for s in self.servers.values() if s.job]

    async def start(self, servers: Iterable[Server]) -> None:
        """Start processes at once, and wait until they serve. Raises UnavailableError."""
        started = list(servers)
        for server in started:
            server.process.launch()
        for server in started:
            await asyncio.to_thread(server.process.wait_ready)

    async def kill(self, servers: Iterable[Server]) -> None:
        """Send SIGKILL to processes."""
        for server in servers:
            await asyncio.to_thread(server.process.kill)

    def wipe(self, server: Server) -> None:
        """Delete the directory of a bookie."""
        shutil.rmtree(self.folder / server.directory)

    def close(self) -> None:
        """Kill everything. Safe to repeat."""
        for server in self.servers.values():
            server.process.kill()


def _host(region: str, number: int) -> str:
    """Return an address of this machine: each region and each server has its own."""
    return f"127.77.{REGIONS.index(region) + 1}.{number}"
