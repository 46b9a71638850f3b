"""The processes of two versions in a run, and the values that they store and read."""

from dataclasses import dataclass, field
from typing import NamedTuple


class StoredLevel(NamedTuple):
    """One version of the feature level in the metadata store."""

    at_ms: float
    level: int
    raising: int


class RegisteredNode(NamedTuple):
    """An ephemeral node of a server that existed when the level rose."""

    path: str
    process: str
    newest_level: int
    """The newest level that the process really knows, whatever it has registered."""
    since_ms: float


class LevelRise(NamedTuple):
    """The moment at which the cluster reached the level, with the servers registered then."""

    at_ms: float
    intended_ms: float
    """When the intention was stored from which the level was raised."""
    registered: tuple[RegisteredNode, ...]


class Admission(NamedTuple):
    """A process that began its work because the feature level permitted it."""

    process: str
    newest_level: int
    called_ms: float
    """When the process began to read the level."""


class UnreadableValue(NamedTuple):
    """A value that a process read and that is in a format which its program does not know."""

    process: str
    path: str
    at_ms: float


@dataclass(slots=True)
class UpgradeUse:
    """Everything that the checker knows about the versions of processes."""

    level: int
    """The level that only the newer programs of the run know."""
    stored: list[StoredLevel] = field(default_factory=list)
    rises: list[LevelRise] = field(default_factory=list)
    written: list[tuple[float, str]] = field(default_factory=list)
    """(virtual ms, path) of each value that was stored in a format of the level."""
    unreadable: list[UnreadableValue] = field(default_factory=list)
    admissions: list[Admission] = field(default_factory=list)
    """Those of programs that read the feature level when they begin."""
    running_after: dict[str, int] = field(default_factory=dict)
    """The admitted processes that run some time after the faults, if the level was raised before:
    with the newest level that each knows."""
    refusals: int = 0
    """Commands to raise the level that were refused."""
    final_refusal: str = ""
    """Why the level could not be raised at the end, when all processes knew it; empty: it could, or
    nobody tried."""

    @property
    def risen_ms(self) -> float:
        """The moment at which the cluster first reached the level; infinity if it never did."""
        return self.rises[0].at_ms if self.rises else float("inf")
