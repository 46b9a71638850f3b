"""Which regions and bookies get no new data, by an operator's command.

One small node in the metadata store holds all that is not normal. Whoever chooses bookies reads it
each time (so a command counts from the moment at which it returned, for every choice that starts
later); readers, who need it only to order replicas, follow it by watch and by reading it again
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
"""After this long without a look, whoever follows the states looks again: watches are hints."""

_ATTEMPTS = 16

K = TypeVar("K")


class State(Enum):
    """What an operator said of a region or bookie. All of them: no new data."""

    DISALLOWED = "disallowed"  # what is there stays
    DRAINED = "drained"  # repair moves away what is there
    OFFLINE = "offline"  # repair counts what is there as lost; readers ask there last


@dataclass(frozen=True, slots=True)
class States:
    """Everything that is not normal."""

    regions: Mapping[Region, State] = field(default_factory=dict)
    bookies: Mapping[BookieId, State] = field(default_factory=dict)

    def of(self, bookie: BookieId, region: Region | None) -> State | None:
        """The state that counts for a bookie: its own or its region's, the stronger one."""
        own = self.bookies.get(bookie)
        its_region = None if region is None else self.regions.get(region)
        order = list(State)
        return max(
            (state for state in (own, its_region) if state is not None),
            key=order.index,
            default=None,
        )

    def open_to_new(self, bookies: list[BookieInfo]) -> list[BookieInfo]:
        """Those that may become members of ensembles."""
        return [info for info in bookies if self.of(info.bookie, info.region) is None]

    def with_region(self, region: Region, state: State | None) -> "States":
        """A region put into a state, or back to normal (None)."""
        return States(_changed(self.regions, region, state), self.bookies)

    def with_bookie(self, bookie: BookieId, state: State | None) -> "States":
        """A bookie put into a state, or back to normal (None)."""
        return States(self.regions, _changed(self.bookies, bookie, state))


class StateStore:
    """The states in the metadata store."""

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._path = f"{root}/rhumbline/placement"

    async def read(self) -> States:
        """What holds now. Raises MetadataUnavailableError, CorruptionError."""
        return (await self._read())[0]

    async def change(self, change: Callable[[States], States]) -> States:
        """Applies ``change``, which may be called again on a newer value. Safe to repeat.

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
        raise MetadataUnavailableError(f"{self._path} changes again and again")

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Calls back after a change: a hint to read again."""
        return self._store.watch(self._path, callback)

    async def _read(self) -> tuple[States, Version | None]:
        value = await idempotent_writes.look(self._store, self._path)
        return (States(), None) if value is None else (decode(value.data), value.version)


def encode(states: States) -> bytes:
    """The node's value. Raises LimitExceededError when there is too much to say."""
    table = {
        "regions": {name: state.value for name, state in sorted(states.regions.items())},
        "bookies": {name: state.value for name, state in sorted(states.bookies.items())},
    }
    data = json.dumps(table, separators=(",", ":")).encode()
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceededError(
            f"the states of {len(states.bookies)} bookies take {len(data)} bytes of at most "
            f"{VALUE_BYTES_MAX}; drain whole regions, or fewer bookies at a time"
        )
    return data


def decode(data: bytes) -> States:
    """Reads the node's value. Raises CorruptionError."""
    try:
        table = json.loads(data)
        return States(
            {check_region(name): State(text) for name, text in table["regions"].items()},
            {check_bookie_id(name): State(text) for name, text in table["bookies"].items()},
        )
    except (ValueError, KeyError, AttributeError, TypeError, InvalidArgumentError) as error:
        raise CorruptionError(f"region states do not parse: {data[:80]!r}") from error


def _changed(known: Mapping[K, State], key: K, state: State | None) -> dict[K, State]:
    changed = {name: one for name, one in known.items() if name != key}
    if state is not None:
        changed[key] = state
    return changed
