"""A FoundationDB cluster with a process in each region, which keeps two copies of everything.

A process advertises one address to clients and to the other processes: a link of the viewer "*",
whose delay is the mean of its region's links. Clients find the processes in a cluster file. A
process whose region is cut off is paused (SIGSTOP) meanwhile, as with etcd.
"""

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .....backends.fdb.library import HOME, LIBRARY
from .....core.protocol.errors import ConfigurationError
from .ensemble_member import EnsembleMember

HINT = (
    "FoundationDB is not installed: put fdbserver, fdbcli and libfdb_c.so of a 7.3 release "
    "(github.com/apple/foundationdb/releases) into a folder and name it by RHUMBLINE_FDB_HOME"
)
_INSTALLED = (
    "/usr/sbin", "/usr/bin", "/usr/lib/foundationdb", "/usr/local/sbin", "/usr/local/bin",
)  # fmt: skip
_CLI_S = 5


class FdbPrograms(NamedTuple):
    """The paths of FoundationDB's server and its command line client."""

    server: Path
    cli: Path

    def server_command(
        self, file: Path, public: str, listen: str, folder: Path, number: int
    ) -> list[str]:
        """Return the command of a server process, with its files in ``folder`` and in its own zone.

        Without zones of their own, processes on one host count as one copy. The memory limit must
        be above the cache, whose default is 2 GiB.
        """
        return [
            str(self.server),
            f"--cluster-file={file}",
            f"--public-address={public}",
            f"--listen-address={listen}",
            f"--datadir={folder / 'data'}",
            f"--logdir={folder}",
            "--logsize=1MiB",
            "--maxlogssize=10MiB",
            "--memory=2GiB",
            "--cache-memory=256MiB",
            f"--locality-zoneid=zone-{number}",
            f"--locality-machineid=machine-{number}",
        ]

    def run(self, file: Path, command: str, *options: str, seconds: int = _CLI_S) -> str:
        """Return the output of a command of fdbcli, errors included; it ends after ``seconds``."""
        try:
            done = subprocess.run(
                [
                    str(self.cli),
                    f"--cluster-file={file}",
                    f"--timeout={seconds}",
                    "--exec",
                    command,
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=3 * seconds,
                check=False,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return f"fdbcli did not end within {3 * seconds} s"
        return done.stdout

    def status(self, file: Path, *options: str, seconds: int = _CLI_S) -> dict[str, Any]:
        """Return the status of a cluster; empty if fdbcli reports none."""
        output = self.run(file, "status json", *options, seconds=seconds)
        try:
            found: dict[str, Any] = json.loads(output[output.index("{") :])
        except ValueError:
            return {}
        return found


def fdb_programs(environ: Mapping[str, str] = os.environ) -> FdbPrograms:
    """Return FoundationDB's programs: those that RHUMBLINE_FDB_HOME names, else installed ones.

    Raises ConfigurationError with the way to install them, or if the named folder is incomplete.
    """
    home = environ.get(HOME)
    if home:
        for name in ("fdbserver", "fdbcli", LIBRARY):
            if not Path(home, name).is_file():
                raise ConfigurationError(f"{HOME} names {home}, which has no {name}")
        return FdbPrograms(Path(home, "fdbserver").resolve(), Path(home, "fdbcli").resolve())
    path = os.pathsep.join((environ.get("PATH", ""), *_INSTALLED))
    server, cli = shutil.which("fdbserver", path=path), shutil.which("fdbcli", path=path)
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise ConfigurationError(HINT) from error
    if server is None or cli is None:
        raise ConfigurationError(HINT)
    return FdbPrograms(Path(server), Path(cli))


class FdbMember(EnsembleMember):
    """One fdbserver process, which is a coordinator too."""

    scheme = "fdb"
    has_peer_link = True

    def __init__(self, region: str, number: int, folder: Path, programs: FdbPrograms) -> None:
        super().__init__(region, number, folder)
        self._programs = programs
        self._file = folder / "fdb.cluster"
        self._redundancy = "single"

    def uri(self, addresses: str) -> str:
        """See ``EnsembleMember``; the addresses are in the cluster file."""
        del addresses
        return f"fdb://{self._file.absolute()}?dir=lab"

    def join(self, members: Sequence[EnsembleMember]) -> None:
        """See ``EnsembleMember``."""
        home = self.folder / f"fdb-{self.region}"
        home.mkdir(parents=True)
        if not self._file.exists():
            coordinators = ",".join(member.peer_address for member in members)
            self._file.write_text(f"lab:rhumbline@{coordinators}\n")
        if len(members) > 2:
            self._redundancy = "double"
        self.program.command = self._programs.server_command(
            self._file, self.peer_address, f"127.0.0.1:{self.peer_port}", home, self.number
        )

    def is_ready(self) -> bool:
        """See ``EnsembleMember``; creates the database if there is none."""
        if "available" in self._cli("status minimal").replace("unavailable", ""):
            return True
        self._cli(f"configure new {self._redundancy} ssd")
        return False

    def is_leader(self) -> bool:
        """Return whether the process is the cluster controller; blocks up to 2 s."""
        processes = self._programs.status(self._file, seconds=1).get("cluster", {})
        return any(
            process.get("address") == self.peer_address
            and any(role.get("role") == "cluster_controller" for role in process.get("roles", ()))
            for process in processes.get("processes", {}).values()
        )

    def _cli(self, command: str) -> str:
        return self._programs.run(self._file, command, seconds=1)
