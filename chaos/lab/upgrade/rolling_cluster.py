"""The processes of a cluster of three regions, each of which runs one of two versions."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ....client.connect import Client
from ....client.system_runtime import run
from ....core.log.namespace import create_namespace
from ....core.log.policy import StreamPolicy
from ....core.protocol.errors import UnavailableError
from ....core.protocol.quorum import Quorum
from ...managed_process import ManagedProcess, bare_environment
from .program_version import ProgramVersion

REGIONS = ("east", "north", "west")
POLICY = StreamPolicy(Quorum(3, 3, 2, 2))
_EACH = 2
_COMMAND_S_MAX = 120.0


class RolledProcess(ManagedProcess):
    """A server whose version may change between two starts. It keeps its address."""

    def __init__(
        self, folder: Path, name: str, version: ProgramVersion, ready: str, *arguments: str
    ) -> None:
        super().__init__(name, [], folder / f"{name}.log", ready=ready, ready_s_max=120, cwd=folder)
        self.version = version
        self.address = ""
        """host:port once it is ready; empty if it has none."""
        self._arguments = arguments
        self._has_port = "--port" in arguments

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        words = list(self._arguments)
        if self._has_port and self.address:
            words[words.index("--port") + 1] = self.address.rpartition(":")[2]
        self.command = self.version.command(*words)
        super().launch()

    def wait_ready(self) -> None:
        """Wait until the process serves. Raises UnavailableError with the end of its log."""
        super().wait_ready()
        self.address = self.find(r" at (\d[\d.]+:\d+)") or ""

    def change(self, version: ProgramVersion) -> None:
        """Stop the process and start it with a version."""
        self.stop()
        self.version = version
        self.start()


class RollingCluster:
    """A running cluster. ``servers`` are in the order in which a guide changes their version."""

    def __init__(self, folder: Path, servers: list[RolledProcess]) -> None:
        self.metadata = metadata_uri(folder)
        self.servers = servers
        self._folder = folder

    @property
    def proxy_uri(self) -> str:
        """URI of the proxies."""
        proxies = [one.address for one in self.servers if one.name.startswith("proxy")]
        return f"grpc://{','.join(proxies)}"

    def command(self, version: ProgramVersion, *arguments: str) -> tuple[int, str]:
        """Run a command of a version on the cluster; return its exit code and its output."""
        return run_command(self._folder, version, *arguments, "-u", self.metadata)


def metadata_uri(folder: Path) -> str:
    """Return the URI of the cluster's metadata store."""
    return f"sqlite://{folder.resolve()}/metadata.db"


def run_command(folder: Path, version: ProgramVersion, *arguments: str) -> tuple[int, str]:
    """Run a command of a version; return its exit code and its output."""
    done = subprocess.run(
        version.command(*arguments),
        cwd=folder,
        env=bare_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_COMMAND_S_MAX,
    )
    return done.returncode, done.stdout.strip()


@contextmanager
def rolling_cluster(
    folder: Path, version: ProgramVersion, streams: tuple[str, ...]
) -> Iterator[RollingCluster]:
    """Run a cluster of three regions with two bookies each, two proxies and a repair process."""
    metadata = metadata_uri(folder)

    def command(*arguments: str) -> None:
        code, output = run_command(folder, version, *arguments, "-u", metadata)
        if code:
            raise UnavailableError(f"rhumbline {' '.join(arguments)}: exit code {code}\n{output}")

    command("cluster", "init", "--region", REGIONS[0])
    servers: list[RolledProcess] = []
    for name, region in ((f"{one}-{n}", one) for one in REGIONS for n in range(_EACH)):
        command("bookie", "format", str(folder / name), "--name", name, "--region", region)
        servers.append(
            RolledProcess(
                folder, name, version, r"^bookie \S+ serves ", "bookie", "run", str(folder / name),
                "-u", metadata, "--port", "0", "--region", region,
            )
        )  # fmt: skip
    servers.append(
        RolledProcess(
            folder, "repair", version, "^repairing the cluster", "repair", "run", "-u", metadata,
            "--region", REGIONS[0],
        )
    )  # fmt: skip
    servers += [
        RolledProcess(
            folder, f"proxy-{region}", version, "proxy serves at ", "write-proxy", "-u", metadata,
            "--region", region, "--port", "0",
        )
        for region in REGIONS[:2]
    ]  # fmt: skip
    with ExitStack() as closing:
        for server in servers:
            closing.callback(server.kill)
            server.launch()
            if server.name == servers[_EACH * len(REGIONS) - 1].name:
                _each(servers[: _EACH * len(REGIONS)], RolledProcess.wait_ready)
                run(_make_streams(metadata, streams))
        _each(servers[_EACH * len(REGIONS) :], RolledProcess.wait_ready)
        yield RollingCluster(folder, servers)


def _each(servers: list[RolledProcess], work: Callable[[RolledProcess], None]) -> None:
    for server in servers:
        work(server)


async def _make_streams(metadata: str, streams: tuple[str, ...]) -> None:
    async with Client(metadata, region=REGIONS[0]) as client:
        await create_namespace(client.store, client.runtime, "default", POLICY)
        for stream in streams:
            await client.namespace().create_stream(stream)
