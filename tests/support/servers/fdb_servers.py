"""FoundationDB clusters for tests, on 127.0.0.1 and free ports; they end with the test process.

The programs are those in the folder that RHUMBLINE_FDB_HOME names (fdbserver, fdbcli and
libfdb_c.so), else the installed ones. No package registry has them, so they are not fetched.
"""

import atexit
import functools
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rhumbline.backends.fdb.library import HOME
from rhumbline.chaos.lab.wan.metadata.fdb import FdbPrograms, fdb_programs
from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.tests.support.servers.certificates import Certificates
from rhumbline.tests.support.servers.installs import NotInstalledError
from rhumbline.tests.support.servers.metadata_servers import Server

READY_S = 120.0
CLI_S = 10
POLL_S = 0.2


def find_programs(environ: Mapping[str, str] = os.environ) -> FdbPrograms:
    """Return the programs. Raises NotInstalledError with the way to install them.

    A folder that RHUMBLINE_FDB_HOME names but that lacks a file raises ConfigurationError, because
    it must not look like a machine without FoundationDB.
    """
    try:
        return fdb_programs(environ)
    except ConfigurationError as error:
        if environ.get(HOME):
            raise
        raise NotInstalledError(str(error)) from error


def version_of(programs: FdbPrograms) -> str:
    """Return the version that the server reports."""
    done = subprocess.run(
        [programs.server, "--version"], capture_output=True, timeout=30, check=False, text=True
    )
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else "of unknown version"


class FdbServer(Server):
    """One fdbserver process, in a zone of its own."""

    name = "fdbserver"

    def __init__(self, cluster: "FdbCluster", number: int) -> None:
        directory = cluster.directory / f"server-{number}"
        directory.mkdir()
        super().__init__(directory)
        self.number = number
        self._cluster = cluster

    @property
    def public_address(self) -> str:
        """The address in cluster files."""
        return self.address + (":tls" if self._cluster.tls is not None else "")

    def command_line(self) -> list[str]:
        command = self._cluster.programs.server_command(
            self._cluster.file, self.public_address, "public", self.directory, self.number
        )
        return [*command, *self._cluster.tls_options("server")]

    def is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


class FdbCluster:
    """A cluster of one process, or of three and more with two copies of everything.

    The first ``coordinators`` processes are coordinators (default: all).
    """

    def __init__(
        self,
        count: int = 1,
        *,
        tls: Certificates | None = None,
        coordinators: int | None = None,
        programs: FdbPrograms | None = None,
        ready_s: float = READY_S,
    ) -> None:
        self.programs = programs or find_programs()
        self.tls = tls
        self.directory = Path(tempfile.mkdtemp(prefix="rhumbline-fdb-"))
        atexit.register(self.remove)
        self.file = self.directory / "fdb.cluster"
        """The cluster file of servers and clients; servers change it with the coordinators."""
        self.servers = [FdbServer(self, number) for number in range(1, count + 1)]
        self._ready_s = ready_s
        self._redundancy = "single" if count == 1 else "double"
        first = [server.public_address for server in self.servers[:coordinators]]
        self.file.write_text(f"tests:{secrets.token_hex(4)}@{','.join(first)}\n")

    def uri(self, directory: str) -> str:
        """Return the URI of a FoundationDB directory in this cluster, without TLS options."""
        return f"fdb://{self.file}?dir=rhumbline-tests/{directory}"

    def start(self) -> None:
        """Start all processes, create the database, and wait until it is healthy."""
        try:
            for server in self.servers:
                server.launch()
            for server in self.servers:
                server.wait_ready()
            self._wait("the database", self._is_created)
            self.wait_healthy()
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """End all processes and remove their files. Safe to repeat."""
        for server in self.servers:
            server.remove()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)

    def lose_data(self) -> None:
        """Kill all processes, remove their data, and create a new database in their place."""
        for server in self.servers:
            server.kill()
            shutil.rmtree(server.directory / "data", ignore_errors=True)
        self.start()

    def wait_healthy(self) -> None:
        """Wait until all copies are there, so that any one process of three may fail."""
        self._wait("all copies", self.is_healthy)

    def is_healthy(self) -> bool:
        """Return whether the database is available and has all its copies."""
        status = self.status()
        cluster = status.get("cluster", {})
        tolerance = cluster.get("fault_tolerance", {})
        copies = tolerance.get("max_zone_failures_without_losing_availability", 0)
        return bool(
            status.get("client", {}).get("database_status", {}).get("available")
            and cluster.get("data", {}).get("state", {}).get("healthy")
            and (len(self.servers) == 1 or copies >= 1)
        )

    def status(self) -> dict[str, Any]:
        """Return the status that fdbcli reports; empty if it reports none."""
        return self.programs.status(self.file, *self.tls_options("client"), seconds=CLI_S)

    def cli(self, command: str) -> str:
        """Return the output of a command of fdbcli, errors included."""
        return self.programs.run(self.file, command, *self.tls_options("client"), seconds=CLI_S)

    def move_coordinators(self, *servers: FdbServer) -> None:
        """Make exactly these processes the coordinators."""
        wanted = " ".join(server.public_address for server in servers)

        def are_moved() -> bool:
            output = self.cli(f"coordinators {wanted}")
            return "Coordination state changed" in output or "No change" in output

        self._wait(f"coordinators {wanted}", are_moved)

    def tls_options(self, who: str) -> list[str]:
        """Return the options of the programs for the certificate of ``server`` or ``client``."""
        if self.tls is None:
            return []
        pair = self.tls.server if who == "server" else self.tls.client
        return [
            f"--tls-certificate-file={pair.cert}",
            f"--tls-key-file={pair.key}",
            f"--tls-ca-file={self.tls.ca}",
        ]

    def _is_created(self) -> bool:
        output = self.cli(f"configure new {self._redundancy} ssd")
        return "Database created" in output or "already exists" in output

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._ready_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"FoundationDB did not provide {what} within {self._ready_s:g} s: "
                    f"{self.cli('status minimal')}"
                )
            time.sleep(POLL_S)


@functools.cache
def shared_cluster() -> FdbCluster:
    """Return a cluster of one process for all tests of this process that do not disturb it."""
    cluster = FdbCluster()
    cluster.start()
    return cluster
