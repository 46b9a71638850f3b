"""A member of a metadata ensemble: one process in one region, whatever the store."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from .....core.protocol.errors import UnavailableError
from ...ports import free_port
from ..processes import READY_S_MAX, Program


class EnsembleMember(ABC):
    """One member. ``scheme`` is that of the store's URIs."""

    scheme = ""
    has_peer_link = False
    """Whether its peers may reach it by another address than the one that it listens on."""

    def __init__(self, region: str, number: int, folder: Path) -> None:
        self.region = region
        self.number = number
        self.folder = folder
        self.port, self.peer_port, self.election_port = free_port(), free_port(), free_port()
        self.peer_address = f"127.0.0.1:{self.peer_port}"
        """What peers are told: set it before ``join``."""
        self.program = Program(self.name, region, [], folder / f"{self.name}.log")

    @property
    def name(self) -> str:
        """In the ensemble, and in targets."""
        return f"metadata-{self.region}"

    @abstractmethod
    def join(self, members: Sequence["EnsembleMember"]) -> None:
        """Says who belongs to the ensemble, before it is started."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it serves; waits for a moment."""

    @abstractmethod
    def is_leader(self) -> bool:
        """Whether it leads now; waits for a moment."""

    async def wait_ready(self) -> None:
        """Raises UnavailableError with the end of its log."""
        for _ in range(int(READY_S_MAX / 0.1)):
            if await asyncio.to_thread(self.is_ready):
                return
            await asyncio.sleep(0.1)
        raise UnavailableError(f"{self.name} is not up:\n{self.program.end_of_log()}")
