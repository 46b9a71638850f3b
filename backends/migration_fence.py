"""The gate of a store: whether it may be used, or which store took its place.

Every write of every backend checks the gate in its own transaction, and every linearizable read
looks at it too. So who closes a gate knows that no write that was begun before can happen after.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from ..core.protocol.errors import CorruptionError, StoreFencedError
from ..core.runtime.metadata_store import MetadataStore, Operation, Watch
from .transaction_plan import Node

GATE_PATH = "/.rhumbline"
"""Where the watch of a gate is kept among the watches of paths; it cannot be asked for as one."""


@dataclass(frozen=True, slots=True)
class FenceState:
    """``epoch`` marks the versions of this life of the store; ``tree`` names what it holds and goes
    with it to other stores. Closed: ``successor`` is the URI of the store to use instead,
    ``mover`` the attempt at a migration that may still write, and ``is_partial`` says that the
    store is being filled: it was not replaced, but is not ready yet."""

    epoch: str
    tree: str
    successor: str | None = None
    mover: str | None = None
    is_partial: bool = False

    def check_open(self) -> None:
        """Raises StoreFencedError when another store took its place."""
        if self.successor is not None:
            why = "is being filled from" if self.is_partial else "was replaced by"
            raise StoreFencedError(f"this store {why} {self.successor}")

    def check(self, through: "FenceState | None") -> None:
        """For a write: the gate is open, or is exactly the closed one that the writer may pass."""
        if through is None:
            self.check_open()
        elif self != through:
            raise StoreFencedError("another attempt at a migration has taken over")

    def encode(self) -> bytes:
        """As it is stored."""
        return json.dumps(asdict(self)).encode()


def decode_fence(data: bytes, where: str) -> FenceState:
    """The gate from its bytes. Raises CorruptionError."""
    try:
        state = json.loads(data)
        epoch = str(state["epoch"])
        tree = str(state.get("tree") or epoch)
        return FenceState(
            epoch, tree, state.get("successor"), state.get("mover"), bool(state.get("is_partial"))
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{where} is not ours: {error}") from error


class MovableStore(MetadataStore, Protocol):
    """A store that can be migrated from and to."""

    async def gate_state(self) -> FenceState:
        """The gate as it is now. Raises MetadataUnavailableError."""
        ...

    async def swap_gate(self, old: FenceState, new: FenceState) -> bool:
        """Replaces the gate if it is ``old``; False: it is not. Raises as any write."""
        ...

    def watch_gate(self, callback: Callable[[], None]) -> Watch:
        """Calls back after the gate changed; a hint as any watch."""
        ...

    def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """All nodes with the root, each once, in pages; one moment only while nobody writes.

        Also of a closed store. A page may lack a node that was deleted meanwhile.
        """
        ...

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], gate: FenceState
    ) -> None:
        """Operations, and numbers that sequential children shall at least get, through a closed
        gate. The operations are one transaction. Raises StoreFencedError when the gate is not
        ``gate``, and as ``txn``."""
        ...
