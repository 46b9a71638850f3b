"""The bookies of a cluster: what each may be used for now, and its current free space."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ...client.units import show_bytes
from ...core.bookie.start.start_record import decode
from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import BookieUnavailableError, CorruptionError
from ...core.runtime.metadata_store import MetadataStore
from ...core.wire.registration import FREE_BYTES, Registration
from ...regions.states import PlacementState, PlacementStates
from ...regions.steered_directory import SteeredDirectory
from ...server.bookie_host import status_address
from ..output_schema import Schema, flag, integer, maybe, text
from .status_documents import NO_STATUS, StatusDocument, read_statuses

_READS_AT_ONCE = 64


class BookieMode(StrEnum):
    """The use that a bookie may be put to. The first one that applies is shown."""

    DECOMMISSIONED = "decommissioned"
    """Removed from the cluster; its process still runs and is to be stopped."""
    DOWN = "down"
    """Not registered."""
    OFFLINE = "offline"
    """Declared lost, by itself or with its region."""
    DRAINING = "draining"
    """Its data is moved elsewhere, by order for the bookie or its region."""
    CLOSED = "closed"
    """It gets no new data, by order; its data stays."""
    LIMBO = "limbo"
    """It may have lost acknowledged data, and accepts no adds to older ledgers."""
    READ_ONLY = "read-only"
    """It refuses new data: its disk is full, or by order."""
    WRITABLE = "writable"
    """Nothing restricts it."""


_MODE_OF_STATE = {
    PlacementState.DISALLOWED: BookieMode.CLOSED,
    PlacementState.DRAINED: BookieMode.DRAINING,
    PlacementState.OFFLINE: BookieMode.OFFLINE,
}


BOOKIE_ROW: dict[str, Schema] = {
    "bookie": text("Id of the bookie."),
    "region": text("Its region, or unknown."),
    "mode": text("What it may be used for.", *BookieMode),
    "address": maybe(text("host:port of the bookie; null if it is down.")),
    "zone": maybe(text("Its zone.")),
    "rack": maybe(text("Its rack.")),
    "host": maybe(text("Its machine: bookies of one host fail together; null if it is down.")),
    "free_bytes": maybe(integer("Free disk space; null if it is not known.")),
    "is_free_space_current": maybe(
        flag("False if the bookie does not respond, so that the value may be old.")
    ),
    "status_address": maybe(text("host:port of its status server.")),
}
"""The schema of ``BookieView.as_row``."""


@dataclass(frozen=True, slots=True)
class BookieView:
    """The present state of a bookie, as far as it is known."""

    bookie: BookieId
    region: Region | None
    is_known: bool
    """True if it was formatted and not removed since."""
    registration: Registration | None
    """None if the bookie is down."""
    is_read_only: bool
    ordered: PlacementState | None
    """The state that an operator set for the bookie or its region."""
    limbo: str
    """Why it is in limbo; empty if it is not."""
    status_address: tuple[str, int] | None
    status: StatusDocument = NO_STATUS

    @property
    def mode(self) -> BookieMode:
        """The use that the bookie may be put to."""
        if not self.is_known:
            return BookieMode.DECOMMISSIONED
        if self.registration is None:
            return BookieMode.DOWN
        if self.ordered is not None:
            return _MODE_OF_STATE[self.ordered]
        if self.limbo:
            return BookieMode.LIMBO
        return BookieMode.READ_ONLY if self.is_read_only else BookieMode.WRITABLE

    @property
    def free_bytes(self) -> int | None:
        """Free disk space: now if the bookie responds, else as it registered; None if unknown."""
        if self.registration is None:
            return None
        now = self.status.statistics.get("free_bytes")
        if isinstance(now, int):
            return now
        is_published = FREE_BYTES in self.registration.properties
        return self.registration.free_bytes if is_published else None

    @property
    def is_free_space_current(self) -> bool | None:
        """False if the free space is the one that the bookie registered; None if it is down."""
        if self.registration is None:
            return None
        return isinstance(self.status.statistics.get("free_bytes"), int)

    def as_row(self) -> dict[str, Any]:
        """Return the bookie as plain values."""
        registration = self.registration
        place = (None, None, None) if registration is None else registration.location
        status = self.status_address
        return {
            "bookie": self.bookie,
            "region": self.region or "unknown",
            "mode": self.mode.value,
            "address": None if registration is None else str(registration.address),
            "zone": place[0],
            "rack": place[1],
            "host": place[2],
            "free_bytes": self.free_bytes,
            "is_free_space_current": self.is_free_space_current,
            "status_address": None if status is None else f"{status[0]}:{status[1]}",
        }


def for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for a table: a free space that may be old says so."""
    shown = dict(row)
    is_current = shown.pop("is_free_space_current")
    if is_current is False and shown["free_bytes"] is not None:
        shown["free_bytes"] = f"{show_bytes(shown['free_bytes'])} when it registered"
    return shown


async def read_bookies(
    store: MetadataStore, directory: SteeredDirectory, *, asks: bool = True
) -> list[BookieView]:
    """Return every bookie that the cluster knows or that is registered, by id.

    With ``asks``, each bookie that is up is asked for its statistics. Raises
    MetadataUnavailableError.
    """
    known = set(await directory.all_known())
    read_only = set(await directory.read_only())
    up = await directory.up()
    states = await directory.states.read()
    slots = asyncio.Semaphore(_READS_AT_ONCE)

    async def view(bookie: BookieId) -> BookieView:
        async with slots:
            return await _view(store, directory, states, bookie, bookie in known, read_only)

    found = await asyncio.gather(*map(view, sorted(known.union(up))))
    if not asks:
        return list(found)
    asked: dict[str, tuple[str, int] | None] = {
        one.bookie: one.status_address for one in found if one.registration is not None
    }
    return with_statuses(found, await read_statuses(asked))


def with_statuses(
    views: list[BookieView], statuses: Mapping[str, StatusDocument]
) -> list[BookieView]:
    """Return the bookies with the statistics that each reported."""
    return [replace(one, status=statuses.get(one.bookie, NO_STATUS)) for one in views]


async def _view(
    store: MetadataStore,
    directory: SteeredDirectory,
    states: PlacementStates,
    bookie: BookieId,
    is_known: bool,
    read_only: set[BookieId],
) -> BookieView:
    region = await directory.region_of(bookie)
    try:
        registration = await directory.registration(bookie)
    except (BookieUnavailableError, CorruptionError):
        registration = None
    start = await directory.read_start(bookie)
    return BookieView(
        bookie,
        region,
        is_known,
        registration,
        bookie in read_only,
        states.of(bookie, region),
        "" if start is None else decode(start.data).limbo,
        await status_address(store, bookie),
    )
