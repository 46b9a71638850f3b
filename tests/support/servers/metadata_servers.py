"""Real servers for tests, on 127.0.0.1 and free ports; they end with the test process.

`zookeeper()`, `etcd()` and `toxiproxy()` return a shared server for each test process, started at
the first call. Tests that disturb a server start their own with the classes. If a server is not
available, the test is skipped with the reason; with CI=true it fails, by its mark `needs_server`.
"""

import atexit
import contextlib
import functools
import json
import shutil
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from rhumbline.chaos.lab.ports import free_port
from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.tests.support.servers import installs

T = TypeVar("T")

READY_S = 120


class Server(ManagedProcess):
    """A server process with a directory of its own."""

    name = "server"

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"rhumbline-{self.name}-"))
        self.port = free_port()
        log = self.directory / "log"
        super().__init__(self.name, [], log, ready_s_max=READY_S, cwd=self.directory)
        atexit.register(self.remove)

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    def command_line(self) -> list[str]:
        """Return the command line of the server, once its configuration is written."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Return whether the server accepts requests."""
        raise NotImplementedError

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        self.command = self.command_line()
        super().launch()

    def remove(self) -> None:
        """End the process and remove its directory. Safe to repeat."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)


class ZooKeeper(Server):
    """A ZooKeeper server; with several ``members`` it belongs to an ensemble."""

    name = "zookeeper"
    tick_ms = 200

    def __init__(self) -> None:
        self._jars = installs.zookeeper_jars()
        super().__init__()
        self.peer_port, self.election_port = free_port(), free_port()
        self.number = 1
        self.members: Sequence[ZooKeeper] = [self]
        self.settings: list[str] = []
        self.java_options: list[str] = []

    def command_line(self) -> list[str]:
        lines = [
            f"tickTime={self.tick_ms}",
            "initLimit=50",
            "syncLimit=25",
            f"dataDir={self.directory}/data",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
        ]
        if len(self.members) > 1:
            lines += [
                f"server.{member.number}=127.0.0.1:{member.peer_port}:{member.election_port}"
                for member in self.members
            ]
        lines += self.settings
        (self.directory / "data").mkdir(exist_ok=True)
        (self.directory / "data" / "myid").write_text(str(self.number))
        (self.directory / "zoo.cfg").write_text("\n".join(lines) + "\n")
        main = "quorum.QuorumPeerMain" if len(self.members) > 1 else "ZooKeeperServerMain"
        return [
            "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.forceSync=no", *self.java_options, "-cp", f"{self._jars}/*",
            f"org.apache.zookeeper.server.{main}", "zoo.cfg",
        ]  # fmt: skip

    def is_ready(self) -> bool:
        return self.mode() is not None

    def mode(self) -> str | None:
        """Return standalone, leader or follower; None if the server does not respond."""
        return self._srv_field("Mode: ")

    def version(self) -> str:
        """Return the version that the server reports."""
        version = self._srv_field("Zookeeper version: ") or "unknown"
        return version.split("-")[0]

    def _srv_field(self, field: str) -> str | None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return None
        lines = answer.decode().splitlines()
        found = [line[len(field) :] for line in lines if line.startswith(field)]
        return found[0] if found else None

    def erase(self) -> None:
        """Removes its data, as a new disk would."""
        shutil.rmtree(self.directory / "data", ignore_errors=True)


class Etcd(Server):
    """An etcd server; with several ``members`` it belongs to a cluster."""

    name = "etcd"

    def __init__(self) -> None:
        self._binary = installs.etcd_binary()
        super().__init__()
        self.peer_port = free_port()
        self.number = 1
        self.members: Sequence[Etcd] = [self]
        self.flags: list[str] = []
        self.tls: ssl.SSLContext | None = None
        """The TLS context of clients; set it if ``flags`` enable TLS."""

    def command_line(self) -> list[str]:
        cluster = ",".join(
            f"m{member.number}=http://127.0.0.1:{member.peer_port}" for member in self.members
        )
        return [
            str(self._binary),
            f"--name=m{self.number}",
            f"--data-dir={self.directory}/data",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{self.peer_port}",
            f"--initial-cluster={cluster}",
            "--heartbeat-interval=50",
            "--election-timeout=500",
            *self.flags,
        ]

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"{'http' if self.tls is None else 'https'}://{self.address}"

    def is_ready(self) -> bool:
        try:
            return bool(self._get("/health")["health"] == "true")
        except (OSError, ValueError):
            return False

    def version(self) -> str:
        """Return the version that the server reports."""
        return self._get("/version")["etcdserver"]

    def call(self, method: str, **body: object) -> None:
        """Call a method of the JSON interface. Raises OSError if it is refused."""
        request = urllib.request.Request(
            f"{self.url}/v3/{method}", data=json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=5, context=self.tls) as answer:
            answer.read()

    def _get(self, path: str) -> dict[str, str]:
        with urllib.request.urlopen(self.url + path, timeout=2, context=self.tls) as answer:
            found: dict[str, str] = json.load(answer)
        return found

    def is_leader(self) -> bool:
        """Return whether the server is the leader of its cluster."""
        request = urllib.request.Request(
            f"http://{self.address}/v3/maintenance/status", data=b"{}", method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                status = json.load(answer)
        except OSError:
            return False
        return bool(status["header"]["member_id"] == status.get("leader"))

    def erase(self) -> None:
        """Removes its data, as a new disk would."""
        shutil.rmtree(self.directory / "data", ignore_errors=True)


Member = TypeVar("Member", ZooKeeper, Etcd)


def ensemble(kind: Callable[[], Member], count: int = 3) -> list[Member]:
    """Start the members of one cluster and wait until they are ready."""
    members = [kind() for _ in range(count)]
    for number, member in enumerate(members, 1):
        member.number, member.members = number, members
    for member in members:
        member.launch()
    for member in members:
        member.wait_ready()
    return members


class Toxiproxy(Server):
    """The Toxiproxy server; `proxy()` adds a proxy to another server that can inject faults."""

    name = "toxiproxy"

    def __init__(self) -> None:
        self._binary = installs.toxiproxy_binary()
        super().__init__()
        self._count = 0

    def command_line(self) -> list[str]:
        return [str(self._binary), "-host", "127.0.0.1", "-port", str(self.port)]

    def is_ready(self) -> bool:
        try:
            self.call("GET", "/version")
        except OSError:
            return False
        return True

    def proxy(self, upstream: str) -> "Proxy":
        """Add a proxy to ``upstream`` (host:port)."""
        self._count += 1
        return Proxy(self, f"p{self._count}", upstream)

    def call(self, method: str, path: str, body: object = None) -> None:
        """Send a request to the HTTP interface."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=5) as answer:
            answer.read()


class Proxy:
    """A proxy to a server, and the faults that it can inject."""

    def __init__(self, server: Toxiproxy, name: str, upstream: str) -> None:
        self._server = server
        self._path = f"/proxies/{name}"
        self._has_toxics = False
        self.port = free_port()
        listen = f"127.0.0.1:{self.port}"
        self._definition = {"name": name, "listen": listen, "upstream": upstream, "enabled": True}
        server.call("POST", "/proxies", self._definition)

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        self._server.call("POST", self._path, {"enabled": False})

    def latency(self, latency_ms: int) -> None:
        """Add a delay to each direction."""
        for stream in ("upstream", "downstream"):
            self._add("latency", stream, {"latency": latency_ms})

    def swallow(self, *streams: str) -> None:
        """Drop all bytes of these directions (default: both) and keep connections open.

        "upstream" is what clients send, "downstream" what they receive.
        """
        for stream in streams or ("upstream", "downstream"):
            self._add("timeout", stream, {"timeout": 0})

    def cut_after(self, count: int, stream: str) -> None:
        """Close each connection when ``count`` more bytes have passed."""
        self._add("limit_data", stream, {"bytes": count})

    def heal(self) -> None:
        """Remove all faults; connections with a toxic are closed and must be opened again.

        A proxy with toxics is deleted and created again, since removing a toxic while bytes are in
        flight can hang the whole server (Shopify/toxiproxy issue 558).
        """
        if self._has_toxics:
            self._server.call("DELETE", self._path)
            self._server.call("POST", "/proxies", self._definition)
            self._has_toxics = False
        else:
            self._server.call("POST", self._path, {"enabled": True})

    def remove(self) -> None:
        """Remove the proxy."""
        with contextlib.suppress(OSError):
            self._server.call("DELETE", self._path)

    def _add(self, kind: str, stream: str, attributes: dict[str, int]) -> None:
        body = {"type": kind, "stream": stream, "attributes": attributes}
        self._server.call("POST", f"{self._path}/toxics", body)
        self._has_toxics = True


def started(make: Callable[[], T]) -> T:
    """Return the result of ``make``; skip the test if a server is not available."""
    try:
        return make()
    except installs.NotInstalledError as reason:
        pytest.skip(str(reason))


@functools.cache
def _shared(kind: type[Server]) -> Server:
    server = kind()
    server.start()
    return server


def zookeeper() -> ZooKeeper:
    """Return the shared ZooKeeper server of this test process."""
    server = started(lambda: _shared(ZooKeeper))
    assert isinstance(server, ZooKeeper)
    return server


def etcd() -> Etcd:
    """Return the shared etcd server of this test process."""
    server = started(lambda: _shared(Etcd))
    assert isinstance(server, Etcd)
    return server


def toxiproxy() -> Toxiproxy:
    """Return the shared Toxiproxy server of this test process."""
    server = started(lambda: _shared(Toxiproxy))
    assert isinstance(server, Toxiproxy)
    return server
