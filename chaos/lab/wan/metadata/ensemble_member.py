"""The interface to one member of a metadata ensemble, independent of the store."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ...ports import free_port
from ..processes import Program


class EnsembleMember(ABC):
    """One member process. ``scheme`` is the scheme of the store's URIs."""

    scheme = ""
    has_peer_link = False
    """True if peers may reach the member at another address than the one it listens on."""

    def __init__(self, region: str, number: int, folder: Path) -> None:
        self.region = region
        self.number = number
        self.folder = folder
        self.port, self.peer_port, self.election_port = free_port(), free_port(), free_port()
        self.peer_address = f"127.0.0.1:{self.peer_port}"
        """The address that peers use; to be set before ``join``."""
        log = folder / f"{self.name}.log"
        self.program = Program(self.name, region, [], log, ready=self.is_ready)

    @property
    def name(self) -> str:
        """The name of the member in the ensemble and in fault targets."""
        return f"metadata-{self.region}"

    def uri(self, addresses: str) -> str:
        """Return the store's URI for clients that reach its members at these addresses."""
        return f"{self.scheme}://{addresses}/lab"

    @abstractmethod
    def join(self, members: Sequence["EnsembleMember"]) -> None:
        """Configure the members of the ensemble before the process is started."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the member serves; blocks up to 2 s."""

    @abstractmethod
    def is_leader(self) -> bool:
        """Return whether the member is the leader; blocks up to 2 s."""
