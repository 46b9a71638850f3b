"""An etcd ensemble with a member in each region.

A member advertises one address to all of its peers, a link of the viewer "*": the delay to it is
the mean of its ways. Clients reach the member of their own region directly and the others by links
of their own. A member whose region is cut off is stopped (SIGSTOP) as long: it hears and says
nothing, and as a minority it could serve nobody in its region either.
"""

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from ..processes import found
from .ensemble_member import EnsembleMember


def etcd_binary(servers: Path) -> Path:
    """The server's program. Raises ConfigurationError."""
    hint = "install the distribution's etcd-server"
    return found("etcd", servers / "etcd" / "usr" / "bin" / "etcd", hint=hint)


class EtcdMember(EnsembleMember):
    """One etcd server."""

    scheme = "etcd"
    has_peer_link = True

    def __init__(self, region: str, number: int, folder: Path, binary: Path) -> None:
        super().__init__(region, number, folder)
        self._binary = binary

    def join(self, members: Sequence[EnsembleMember]) -> None:
        """See Member."""
        everybody = ",".join(f"{one.name}=http://{one.peer_address}" for one in members)
        self.program.command = [
            str(self._binary),
            f"--name={self.name}",
            f"--data-dir={self.folder}/etcd-{self.region}",
            f"--listen-client-urls=http://127.0.0.1:{self.port}",
            f"--advertise-client-urls=http://127.0.0.1:{self.port}",
            f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
            f"--initial-advertise-peer-urls=http://{self.peer_address}",
            f"--initial-cluster={everybody}",
            "--heartbeat-interval=100",
            "--election-timeout=1000",
        ]

    def is_ready(self) -> bool:
        """See Member."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/health", timeout=2
            ) as answer:
                return bool(json.load(answer)["health"] == "true")
        except (OSError, ValueError):
            return False

    def is_leader(self) -> bool:
        """See Member."""
        url = f"http://127.0.0.1:{self.port}/v3/maintenance/status"
        request = urllib.request.Request(url, data=b"{}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                status = json.load(answer)
        except (OSError, ValueError):
            return False
        return bool(status["header"]["member_id"] == status.get("leader"))
