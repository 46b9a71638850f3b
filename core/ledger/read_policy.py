"""The interface that decides which replica is read first, and when another one is read as well."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ..protocol.bookie_id import BookieId


class ReadKind(Enum):
    """The kind of a read: of an entry, or a long poll, which may take long to be answered."""

    ENTRY = "entry"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class ReplicaChoice:
    """A replica that may be read. ``has_failed``: it failed recently and is tried last."""

    index: int
    bookie: BookieId
    region: str | None
    has_failed: bool


class ReadPolicy(Protocol):
    """Chooses replicas for reads and is notified of the outcomes.

    Its methods do not wait: reads are a hot path.
    """

    def order(self, choices: Sequence[ReplicaChoice]) -> Sequence[ReplicaChoice]:
        """Returns the replicas in the order in which to send them the request."""
        ...

    def silence_ms(self, kind: ReadKind, choice: ReplicaChoice, sent_count: int) -> float:
        """Returns the milliseconds after which the request is also sent to another replica.

        ``choice`` is the ``sent_count``-th replica that received the request. 0: never.
        """
        ...

    def may_send_more(self, kind: ReadKind) -> bool:
        """Returns whether a pending request may be sent once more; if True, the caller sends it."""
        ...

    def on_response(
        self, kind: ReadKind, choice: ReplicaChoice, took_ms: float, sent_count: int
    ) -> None:
        """``choice`` responded first; ``sent_count`` replicas had received the request by then."""
        ...

    def on_failure(self, choice: ReplicaChoice) -> None:
        """The request could not be sent to ``choice``, or it responded that it is unavailable."""
        ...

    def on_outrun(self, choice: ReplicaChoice) -> None:
        """A replica that received the request later than ``choice`` has responded before it."""
        ...
