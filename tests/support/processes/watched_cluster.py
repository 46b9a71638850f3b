"""Three regions of real processes with status ports, watched by a Prometheus server."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rhumbline.chaos.lab.ports import free_port
from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.tests.support.processes.process_cluster import succeeded
from rhumbline.tests.support.processes.prometheus_server import PrometheusServer

REGIONS = ("bonn", "oslo", "rome")
_READY_S_MAX = 120.0
_HOST = "127.0.0.1"


class WatchedServer(ManagedProcess):
    """A server of the cluster, at a fixed status port."""

    def __init__(
        self, name: str, job: str, region: str, log: Path, status_port: int, *command: str
    ) -> None:
        super().__init__(
            name,
            rhumbline_command(*command, "--status-port", str(status_port)),
            log,
            ready=r"(serves |repairing the cluster|archiving namespace)",
            ready_s_max=_READY_S_MAX,
        )
        self.job = job
        self.region = region
        self.status_address = f"{_HOST}:{status_port}"


class WatchedCluster:
    """Bookies in each region, proxies and repair processes in some, an archiver in the first."""

    def __init__(
        self,
        root: Path,
        prometheus: Path,
        *,
        regions: Sequence[str] = REGIONS,
        bookies_per_region: int = 2,
        proxies: int = 3,
        repairers: int = 3,
    ) -> None:
        self.root = root
        self.metadata = f"sqlite://{root}/metadata.db"
        self.regions = tuple(regions)
        self.cold = f"file://{root}/cold"
        bookies = [(region, n) for region in regions for n in range(1, bookies_per_region + 1)]
        ports = iter(_free_ports(len(bookies) + proxies + repairers + 2))
        self.bookies = [self._bookie(region, n, next(ports)) for region, n in bookies]
        self.proxies = [self._proxy(region, next(ports)) for region in regions[:proxies]]
        self.repairers = [self._repairer(region, next(ports)) for region in regions[:repairers]]
        self.archiver = self._server(
            "archiver", "rhumbline-archive", regions[0], next(ports),
            "archive", "serve", "--cold", self.cold, "--every", "1s",
        )  # fmt: skip
        targets: dict[str, list[str]] = {}
        for server in self.servers():
            targets.setdefault(server.job, []).append(server.status_address)
        self.prometheus = PrometheusServer(root / "prometheus", prometheus, next(ports), targets)

    def servers(self) -> Iterator[WatchedServer]:
        """Yield every server, in the order in which they are started."""
        yield from (*self.bookies, *self.proxies, *self.repairers, self.archiver)

    @property
    def proxy_uri(self) -> str:
        """The URI with which a thin client connects to the proxies."""
        found = [proxy.find(r"proxy serves at (\S+)") for proxy in self.proxies]
        return f"grpc://{','.join(address for address in found if address)}"

    def disk_of(self, bookie: WatchedServer) -> Path:
        """Return the directory of a bookie."""
        return self.root / "bookies" / bookie.name

    def __enter__(self) -> Self:
        (self.root / "cold").mkdir(parents=True)
        try:
            self._start()
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill_all()

    def _start(self) -> None:
        succeeded("cluster", "init", "-u", self.metadata)
        for bookie in self.bookies:
            self._data_of(bookie.name).mkdir(parents=True)
            succeeded(
                "bookie", "format", str(self.disk_of(bookie)), "--name", bookie.name,
                "--region", bookie.region, "-u", self.metadata,
            )  # fmt: skip
            bookie.launch()
        for bookie in self.bookies:
            bookie.wait_ready()
        place = ("-u", self.metadata, "--region", self.regions[0])
        succeeded("namespace", "create", "default", *place)
        others = (*self.proxies, *self.repairers, self.archiver, self.prometheus)
        for server in others:
            server.launch()
        for server in others:
            server.wait_ready()

    def kill_all(self) -> None:
        """Send SIGKILL to every process."""
        for server in (*self.servers(), self.prometheus):
            server.kill()

    def _data_of(self, name: str) -> Path:
        """Return the directory for the sorted files of a bookie."""
        return self.root / "data" / name

    # --- servers ----------------------------------------------------------------------------------

    def _bookie(self, region: str, number: int, status_port: int) -> WatchedServer:
        name = f"{region}-{number}"
        return self._server(
            name, "rhumbline-bookie", region, status_port,
            "bookie", "run", str(self.root / "bookies" / name), "--port", "0",
            "--set", f"bookie.data_dirs={self._data_of(name)}",
        )  # fmt: skip

    def _proxy(self, region: str, status_port: int) -> WatchedServer:
        return self._server(
            f"proxy-{region}", "rhumbline-proxy", region, status_port,
            "write-proxy", "--with-read", "--port", "0",
        )  # fmt: skip

    def _repairer(self, region: str, status_port: int) -> WatchedServer:
        return self._server(
            f"repair-{region}", "rhumbline-repair", region, status_port, "repair", "run"
        )

    def _server(
        self, name: str, job: str, region: str, status_port: int, *command: str
    ) -> WatchedServer:
        place = () if job == "rhumbline-bookie" else ("--region", region)
        return WatchedServer(
            name, job, region, self.root / f"{name}.log", status_port,
            *command, "-u", self.metadata, *place,
        )  # fmt: skip


def _free_ports(count: int) -> list[int]:
    found: dict[int, None] = {}
    while len(found) < count:
        found[free_port()] = None
    return list(found)
