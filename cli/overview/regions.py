"""The regions of a cluster: whether each accepts new data, and what is in it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.protocol.bookie_id import Region
from ...regions.states import PlacementState
from ...server.server_directory import ServerRecord
from ..output_schema import Schema, integer, maybe, text
from .bookies import BookieMode, BookieView

OPEN, DOWN, NO_WRITABLE, EMPTY = "open", "down", "no writable bookie", "no bookies"

REGION_ROW: dict[str, Schema] = {
    "region": text("Name of the region, or unknown."),
    "state": text(
        "The state that operators have set; otherwise open if it accepts new data.",
        OPEN,
        DOWN,
        NO_WRITABLE,
        EMPTY,
        *(state.value for state in PlacementState),
    ),
    "bookies": integer("Bookies that were formatted there."),
    "writable": integer("Bookies that accept new data."),
    "read_only": integer("Bookies that refuse new data by themselves."),
    "closed": integer("Bookies that are draining, closed or offline by order."),
    "down": integer("Bookies that are not registered."),
    "free_bytes": maybe(integer("Free disk space of the writable bookies; null if not known.")),
    "proxies": integer("Write and read proxies."),
    "repairers": integer("Repair processes."),
}
"""The schema of a row of ``region_rows``."""

_CLOSED = (BookieMode.DRAINING, BookieMode.CLOSED, BookieMode.OFFLINE)
_GONE = (BookieMode.DOWN, BookieMode.DECOMMISSIONED)
_REFUSES = (BookieMode.READ_ONLY, BookieMode.LIMBO)


def region_rows(
    bookies: Sequence[BookieView],
    ordered: Mapping[Region, PlacementState],
    servers: Sequence[ServerRecord] = (),
    declared: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return a row for each region that is declared, or has a bookie, a server or a state."""
    names = {one.region for one in bookies} | set(ordered) | set(map(Region, declared))
    names |= {Region(server.region) for server in servers if server.region}
    return [
        _row(
            name,
            [one for one in bookies if one.region == name],
            None if name is None else ordered.get(name),
            [server for server in servers if server.region == (name or "")],
        )
        for name in sorted(names, key=str)
    ]


def _row(
    name: Region | None,
    bookies: Sequence[BookieView],
    ordered: PlacementState | None,
    servers: Sequence[ServerRecord],
) -> dict[str, Any]:
    modes = Counter(one.mode for one in bookies)
    free = [one.free_bytes for one in bookies if one.mode is BookieMode.WRITABLE]
    known = [size for size in free if size is not None]
    return {
        "region": name or "unknown",
        "state": _state(modes, ordered),
        "bookies": sum(one.is_known for one in bookies),
        "writable": modes[BookieMode.WRITABLE],
        "read_only": sum(modes[mode] for mode in _REFUSES),
        "closed": sum(modes[mode] for mode in _CLOSED),
        "down": modes[BookieMode.DOWN],
        "free_bytes": sum(known) if len(known) == len(free) else None,
        "proxies": sum(server.kind.endswith("proxy") for server in servers),
        "repairers": sum(server.kind == "repair" for server in servers),
    }


def _state(modes: Counter[BookieMode], ordered: PlacementState | None) -> str:
    if ordered is not None:
        return ordered.value
    if modes[BookieMode.WRITABLE]:
        return OPEN
    if not modes:
        return EMPTY
    return NO_WRITABLE if any(modes[mode] for mode in BookieMode if mode not in _GONE) else DOWN
