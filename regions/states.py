"""States of regions and bookies that operators close to new data (rule PLC-18).

One small node in the metadata store holds every state that is not normal. Components that choose
bookies read it each time, so a command is effective for every choice that starts after it returned.
Readers need the states only to order replicas; they follow the node by a watch and read it again
after ``REREAD_MS``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from ..core.metadata import idempotent_writes
from ..core.metadata.cluster_layout import ROOT
from ..core.protocol.bookie_id import BookieId, Region, check_bookie_id, check_region
from ..core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    InvalidArgumentError,
    LimitExceededError,
    MetadataUnavailableError,
    NodeExistsError,
)
from ..core.protocol.placement import BookieInfo
from ..core.runtime.metadata_store import VALUE_BYTES_MAX, MetadataStore, Version, Watch

REREAD_MS = 5_000
"""Maximum age of followed states before they are read again, because watches are hints."""

_ATTEMPTS = 16

K = TypeVar("K")


class PlacementState(Enum):
    """A state that an operator set for a region or a bookie. None of them admits new data."""

    DISALLOWED = "disallowed"  # existing copies stay
    DRAINED = "drained"  # repair moves existing copies elsewhere
    OFFLINE = "offline"  # repair treats copies as lost; readers ask last


@dataclass(frozen=True, slots=True)
class PlacementStates:
    """All states that are not normal."""

    regions: Mapping[Region, PlacementState] = field(default_factory=dict)
    bookies: Mapping[BookieId, PlacementState] = field(default_factory=dict)

    def of(self, bookie: BookieId, region: Region | None) -> PlacementState | None:
        """Return the effective state of a bookie: the stronger one of its own and its region's."""
        own = self.bookies.get(bookie)
        its_region = None if region is None else self.regions.get(region)
        if own is None or its_region is None:
            return own or its_region
        order = list(PlacementState)
        return max(own, its_region, key=order.index)

    def open_to_new(self, bookies: list[BookieInfo]) -> list[BookieInfo]:
        """Return the bookies that may become members of ensembles."""
        return [info for info in bookies if self.of(info.bookie, info.region) is None]

    def with_region(self, region: Region, state: PlacementState | None) -> "PlacementStates":
        """Return the states with a region in ``state``, or back to normal (None)."""
        return PlacementStates(_changed(self.regions, region, state), self.bookies)

    def with_bookie(self, bookie: BookieId, state: PlacementState | None) -> "PlacementStates":
        """Return the states with a bookie in ``state``, or back to normal (None)."""
        return PlacementStates(self.regions, _changed(self.bookies, bookie, state))


class PlacementStateStore:
    """The placement states in the metadata store."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._path = f"{root}/rhumbline/placement"

    async def read(self) -> PlacementStates:
        """Return the present states. Raises MetadataUnavailableError, CorruptionError."""
        return (await self._read())[0]

    async def change(self, change: Callable[[PlacementStates], PlacementStates]) -> PlacementStates:
        """Apply ``change``, which is called again if the states changed meanwhile. Safe to repeat.

        Raises LimitExceededError, CorruptionError, MetadataUnavailableError, IndeterminateError.
        """
        for _ in range(_ATTEMPTS):
            before, version = await self._read()
            after = change(before)
            if after == before:
                return before
            data = encode(after)
            try:
                if version is None:
                    await idempotent_writes.create(self._store, self._path, data)
                else:
                    await idempotent_writes.put(self._store, self._path, data, version)
                return after
            except (BadVersionError, NodeExistsError):
                continue
        raise MetadataUnavailableError(f"{self._path} changed during {_ATTEMPTS} attempts")

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back after a change. This is a hint: read the states again."""
        return self._store.watch(self._path, callback)

    async def _read(self) -> tuple[PlacementStates, Version | None]:
        value = await idempotent_writes.read_if_exists(self._store, self._path)
        return (PlacementStates(), None) if value is None else (decode(value.data), value.version)


def encode(states: PlacementStates) -> bytes:
    """Encode the node's value. Raises LimitExceededError if it is too large for a node."""
    table = {
        "regions": {name: state.value for name, state in sorted(states.regions.items())},
        "bookies": {name: state.value for name, state in sorted(states.bookies.items())},
    }
    data = json.dumps(table, separators=(",", ":")).encode()
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceededError(
            f"states of {len(states.bookies)} bookies have {len(data)} bytes, more than "
            f"{VALUE_BYTES_MAX}; drain whole regions, or fewer bookies at a time"
        )
    return data


def decode(data: bytes) -> PlacementStates:
    """Decode the node's value. Raises CorruptionError."""
    try:
        table = json.loads(data)
        return PlacementStates(
            {check_region(name): PlacementState(text) for name, text in table["regions"].items()},
            {
                check_bookie_id(name): PlacementState(text)
                for name, text in table["bookies"].items()
            },
        )
    except (ValueError, KeyError, AttributeError, TypeError, InvalidArgumentError) as error:
        raise CorruptionError(f"placement states cannot be decoded: {data[:80]!r}") from error


def _changed(
    known: Mapping[K, PlacementState], key: K, state: PlacementState | None
) -> dict[K, PlacementState]:
    changed = {name: other for name, other in known.items() if name != key}
    if state is not None:
        changed[key] = state
    return changed
