"""A ZooKeeper ensemble with a member in each region.

A member listens on the address that its peers use, so there can be no link, and no delay, between
members. Clients reach the member of their own region directly and each other member over a separate
link. A member whose region is cut off is paused (SIGSTOP) meanwhile.
"""

import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from .....core.protocol.errors import ConfigurationError
from .ensemble_member import EnsembleMember

VERSION = "3.9.5"
_TICK_MS = 200


def zookeeper_jars(servers: Path) -> Path:
    """Return the folder with ZooKeeper's jars. Raises ConfigurationError if it is missing."""
    jars = servers / f"zookeeper-{VERSION}"
    if shutil.which("java") is None or not jars.is_dir():
        raise ConfigurationError(f"ZooKeeper needs java in PATH, and its jars in {jars}")
    return jars


class ZooKeeperMember(EnsembleMember):
    """One ZooKeeper server."""

    scheme = "zk"

    def __init__(self, region: str, number: int, folder: Path, jars: Path) -> None:
        super().__init__(region, number, folder)
        self._jars = jars

    def join(self, members: Sequence[EnsembleMember]) -> None:
        """See ``EnsembleMember``."""
        home = self.folder / f"zookeeper-{self.region}"
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(str(self.number))
        lines = [
            f"tickTime={_TICK_MS}",
            "initLimit=50",
            "syncLimit=10",
            f"dataDir={home}/data",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            "admin.enableServer=false",
            "4lw.commands.whitelist=srvr",
            "maxClientCnxns=0",
            *(
                f"server.{member.number}={member.peer_address}:{member.election_port}"
                for member in members
            ),
        ]
        (home / "zoo.cfg").write_text("\n".join(lines) + "\n")
        self.program.command = [
            "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-cp", f"{self._jars}/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg"),
        ]  # fmt: skip

    def is_ready(self) -> bool:
        """See ``EnsembleMember``."""
        return self._mode() is not None  # a server that cannot serve yet tells no mode

    def is_leader(self) -> bool:
        """See ``EnsembleMember``."""
        return self._mode() == "leader"

    def _mode(self) -> str | None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                response = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return None
        modes = [line[6:] for line in response.decode().splitlines() if line.startswith("Mode: ")]
        return modes[0] if modes else None
