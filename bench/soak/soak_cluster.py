"""The processes of a soak: three regions with TLS, and every kind of server and application."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from ...chaos.lab.certificates.deployment import CLIENT, SERVER, Deployment
from ...chaos.managed_process import ManagedProcess, python_command, rhumbline_command
from ...chaos.server_processes import BookieProcess, ProxyProcess
from ...client.connect import Client
from ...client.system_runtime import run, system_runtime
from ...client.topics import Topics
from ...core.log.namespace import create_namespace
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import UnavailableError
from ...core.protocol.quorum import Quorum
from ...security.settings import TlsSettings
from ...tls.credentials import TlsCredentials
from .programs import PARTITIONS, READY, STREAMS, TOPIC

REGIONS = ("east", "north", "west")
HOME = REGIONS[0]
BOOKIES = ("east-0", "east-1", "north-0", "west-0", "west-1")
"""The last one is killed repeatedly; the first one has a data directory."""

POLICY = StreamPolicy(
    Quorum(3, 3, 2, 2),
    roll_ms=10_000,
    retention_ms=60_000,
    hot_retention_ms=30_000,
    archive_retention_ms=90_000,
    purge_grace_ms=2_000,
)
BOOKIE_SETTINGS = {
    "RHUMBLINE_BOOKIE__LOG_FILE_BYTES": str(2 << 20),
    "RHUMBLINE_BOOKIE__SEALED_LOGS_KEPT": "1",
    "RHUMBLINE_BOOKIE__MAINTENANCE_MS": "2s",
    "RHUMBLINE_BOOKIE__COLLECT_MS": "10s",
    "RHUMBLINE_BOOKIE__SCRUB_MS": "30s",
    "RHUMBLINE_BOOKIE__TOMBSTONE_MS": "2min",
}
PROXY_SETTINGS = {"RHUMBLINE_PROXY__CACHE_BYTES_MAX": str(32 << 20)}
"""A cache that is full before the warm-up ends, so that its filling is not mistaken for growth."""
LOST_AFTER_S = 20
"""Time after which repair replaces the copies of a bookie that is down."""

_COMMAND_S_MAX = 120.0


class SoakCluster:
    """Running processes. Their files are below ``folder``."""

    def __init__(self, folder: Path, period_s: float) -> None:
        self.folder = folder
        self.metadata = f"sqlite://{folder.resolve()}/metadata.db"
        self.bookies: list[BookieProcess] = []
        self.proxies: list[ProxyProcess] = []
        self.services: list[ManagedProcess] = []
        """Repair and the archiver."""
        self.applications: list[ManagedProcess] = []
        self._period_s = period_s
        deployment = Deployment(folder)
        self._clients = deployment.settings(CLIENT)
        tls = deployment.settings(SERVER)
        self._environ = {
            "RHUMBLINE_TLS__CERTIFICATE": tls.certificate,
            "RHUMBLINE_TLS__KEY": tls.key,
            "RHUMBLINE_TLS__CA": tls.ca,
            "RHUMBLINE_TLS__SERVER_NAME": tls.server_name,
        }

    @property
    def victim(self) -> BookieProcess:
        """The bookie that is killed repeatedly."""
        return self.bookies[-1]

    def processes(self) -> list[ManagedProcess]:
        """Return all processes."""
        return [*self.bookies, *self.proxies, *self.services, *self.applications]

    def folders(self) -> dict[str, Path]:
        """Return what is measured on disk, by name."""
        named = {bookie.name: bookie.directory for bookie in self.bookies}
        return {**named, "data directory": self._data_directory, "archives": self._archives}

    def report_of(self, application: ManagedProcess) -> Path:
        """Return the file in which an application reports."""
        return self.folder / f"{application.name}.jsonl"

    @property
    def _data_directory(self) -> Path:
        return self.folder / "data-directory"

    @property
    def _archives(self) -> Path:
        return self.folder / "archives"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all processes. Raises UnavailableError."""
        with ExitStack() as closing:
            closing.callback(lambda: [process.kill() for process in self.processes()])
            self._start_bookies()
            run(self._create_streams(self._clients))
            self._start_servers()
            self._start_applications()
            yield

    def _start_bookies(self) -> None:
        self._command("cluster", "init", "--region", HOME)
        self._data_directory.mkdir()
        self._archives.mkdir()
        for name in BOOKIES:
            region, directory = name.partition("-")[0], self.folder / name
            self._command("bookie", "format", str(directory), "--name", name, "--region", region)
            environ = {**self._environ, **BOOKIE_SETTINGS}
            if name == BOOKIES[0]:
                environ["RHUMBLINE_BOOKIE__DATA_DIRS"] = str(self._data_directory.resolve())
            self.bookies.append(
                BookieProcess(directory, self.metadata, "--region", region, environ=environ)
            )
        for bookie in self.bookies:
            bookie.launch()
        for bookie in self.bookies:
            bookie.wait_ready()

    async def _create_streams(self, tls: TlsSettings) -> None:
        runtime = system_runtime(None, TlsCredentials(tls))
        async with Client(self.metadata, region=HOME, runtime=runtime) as client:
            await create_namespace(client.store, client.runtime, "default", POLICY)
            for stream in STREAMS.values():
                await client.namespace().create_stream(stream)
            await Topics(client).create(TOPIC, PARTITIONS)

    def _start_servers(self) -> None:
        for region in REGIONS[:2]:
            self.proxies.append(
                ProxyProcess(
                    self.folder, self.metadata, "write-proxy", f"proxy-{region}", "--with-read",
                    region=region, environ={**self._environ, **PROXY_SETTINGS},
                )
            )  # fmt: skip
        options = ("-u", self.metadata, "--region", HOME)
        cold = f"file://{self._archives.resolve()}"
        for name, ready, arguments in (
            ("repair", "repairing the cluster", (
                "repair", "run", "--audit-interval", "5s", "--lost-after", f"{LOST_AFTER_S}s",
                "--retention-interval", "5s", "--set", f"cluster.cold={cold}",
            )),
            ("archiver", "status at", ("archive", "serve", "--cold", cold, "--every", "5s")),
        ):  # fmt: skip
            self.services.append(
                ManagedProcess(
                    name, rhumbline_command(*arguments, *options), self.folder / f"{name}.log",
                    ready=ready, environ=self._environ, ready_s_max=120.0,
                )
            )  # fmt: skip
        self._start(self.proxies)
        self._start(self.services)

    def _start_applications(self) -> None:
        proxies = "grpc://" + ",".join(proxy.address for proxy in self.proxies)
        tls = json.dumps(asdict(self._clients))
        for name, kind, uri in (
            ("direct", "stream", self.metadata),
            ("proxied", "stream", proxies),
            ("topic", "topic", proxies),
            ("churn", "churn", self.metadata),
        ):
            command = python_command(
                "bench.soak.programs", kind, uri, HOME, tls, str(self.folder / f"{name}.jsonl"),
                str(self._period_s),
            )  # fmt: skip
            self.applications.append(
                ManagedProcess(name, command, self.folder / f"{name}.log", ready=READY)
            )
        self._start(self.applications)

    def _start(self, processes: list[ManagedProcess] | list[ProxyProcess]) -> None:
        for process in processes:
            process.launch()
        for process in processes:
            process.wait_ready()

    def _command(self, *arguments: str) -> None:
        process = ManagedProcess(
            "command",
            rhumbline_command(*arguments, "-u", self.metadata),
            self.folder / "commands.log",
        )
        process.launch()
        if process.wait(_COMMAND_S_MAX):
            raise UnavailableError(process.end_of_log())
