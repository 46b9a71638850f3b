"""An etcd ensemble with a member in each region.

A member advertises one address to all of its peers: a link of the viewer "*", whose delay is the
mean of its region's links. Clients reach the member of their own region directly and each other
member over a separate link. A member whose region is cut off is paused (SIGSTOP) meanwhile: it can
neither send nor receive, and as a minority it could not serve its own region either.
"""

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from ..processes import find_program
from .ensemble_member import EnsembleMember


def etcd_binary(servers: Path) -> Path:
    """Return the path of the etcd server. Raises ConfigurationError if it is not installed."""
    hint = "install the distribution's etcd-server"
    return find_program("etcd", servers / "etcd" / "usr" / "bin" / "etcd", hint=hint)


class EtcdMember(EnsembleMember):
    """One etcd server."""

    scheme = "etcd"
    has_peer_link = True

    def __init__(self, region: str, number: int, folder: Path, binary: Path) -> None:
        super().__init__(region, number, folder)
        self._binary = binary

    def join(self, members: Sequence[EnsembleMember]) -> None:
        """See ``EnsembleMember``."""
        initial_cluster = ",".join(
            f"{member.name}=http://{member.peer_address}" for member in members
        )
        self.program.command = [
            str(self._binary),
            f"--name={self.name}",
            f"--data-dir={self.folder}/etcd-{self.region}",
            f"--listen-client-urls=http://127.0.0.1:{self.port}",
            f"--advertise-client-urls=http://127.0.0.1:{self.port}",
            f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
            f"--initial-advertise-peer-urls=http://{self.peer_address}",
            f"--initial-cluster={initial_cluster}",
            "--heartbeat-interval=100",
            "--election-timeout=1000",
        ]

    def is_ready(self) -> bool:
        """See ``EnsembleMember``."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/health", timeout=2
            ) as response:
                return bool(json.load(response)["health"] == "true")
        except (OSError, ValueError):
            return False

    def is_leader(self) -> bool:
        """See ``EnsembleMember``."""
        url = f"http://127.0.0.1:{self.port}/v3/maintenance/status"
        request = urllib.request.Request(url, data=b"{}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=2) as response:
                status = json.load(response)
        except (OSError, ValueError):
            return False
        return bool(status["header"]["member_id"] == status.get("leader"))
