"""The use of one topic by writers and a group, as a run recorded it. Times are virtual ms."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ....core.protocol.dlsn import Dlsn


class TopicRecord(NamedTuple):
    """The identity of a record: which writer appended it, and as its which record."""

    writer: int
    number: int

    def __str__(self) -> str:
        """Return the form that is used in violations."""
        return f"record {self.writer}.{self.number}"


class GroupDelivery(NamedTuple):
    """A batch that a member of the group was given."""

    at_ms: float
    member: str
    partition: int
    positions: tuple[Dlsn, ...]


class ClaimVersion(NamedTuple):
    """The holder of the claim on a partition from ``at_ms`` on; None: nobody holds it."""

    at_ms: float
    member: str | None


@dataclass(slots=True)
class TopicUse:
    """Everything that a run knows about a topic, its writers and its group."""

    keys: dict[TopicRecord, bytes] = field(default_factory=dict)
    """The key of each record that was appended, whatever the outcome."""
    acknowledged: dict[TopicRecord, Dlsn] = field(default_factory=dict)
    """The position that each acknowledged append was told."""
    contents: dict[int, list[tuple[Dlsn, TopicRecord]]] = field(default_factory=dict)
    """All records of each partition, in order, read after the run without proxies."""
    deliveries: list[GroupDelivery] = field(default_factory=list)
    claims: dict[int, list[ClaimVersion]] = field(default_factory=dict)
    """The versions of the claim on each partition, in the order of the store."""
    stored: dict[int, list[tuple[float, Dlsn]]] = field(default_factory=dict)
    """(virtual ms, position) of the group in each partition, in the order of the store."""
    unnoticed: list[tuple[float, float]] = field(default_factory=list)
    """Periods in which a session may end without that its member can notice it: its proxy is cut
    off from the metadata store, the store ended it early, or the process was paused."""

    def holder_at(self, partition: int, at_ms: float) -> str | None:
        """Return the member that held the claim on a partition."""
        holder: str | None = None
        for version in self.claims.get(partition, ()):
            if version.at_ms > at_ms:
                break
            holder = version.member
        return holder

    def may_be_unnoticed(self, at_ms: float) -> bool:
        """True if a member may not know yet that its session has ended."""
        return any(from_ms <= at_ms <= to_ms for from_ms, to_ms in self.unnoticed)
