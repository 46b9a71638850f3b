"""A deployment on paper: regions with their bookies, round trips, fsync times, metadata voters.

``topology_from`` reads the table of a TOML file and reports every fault at once.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.protocol.bookie_id import check_region
from ..core.protocol.errors import InvalidArgumentError

Samples = float | Sequence[float]
"""One time in milliseconds, or measured ones to draw from."""

REGIONS_MAX = 12
"""A plan looks at every set of lost regions; 2^12 of them take about a second."""

_TIME_MS_MAX = 60_000
_BOOKIES_MAX = 10_000
_KEYS = ("regions", "round_trip_ms", "local_round_trip_ms", "fsync_ms", "metadata_regions")


@dataclass(frozen=True, slots=True)
class Topology:
    """Regions with their number of bookies, and round trips between regions in milliseconds.

    ``round_trip_ms[a, b]`` for each unordered pair (either order); inside a region it is
    ``local_round_trip_ms``. None: unknown, then nothing is said about latency. ``fsync_ms``:
    measured samples of one durable write. ``metadata_regions``: where the metadata store has a
    voting member (default: every region).
    """

    bookies: Mapping[str, int]
    round_trip_ms: Mapping[tuple[str, str], Samples] | None
    local_round_trip_ms: float = 0.2
    fsync_ms: Sequence[float] = (0.3,)
    metadata_regions: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.bookies or not self.fsync_ms:
            raise InvalidArgumentError("a topology needs a region with bookies and an fsync time")
        if len(self.bookies) > REGIONS_MAX:
            raise InvalidArgumentError(
                f"{len(self.bookies)} regions; a plan takes at most {REGIONS_MAX}"
            )
        if self.round_trip_ms is not None:
            for a, b in itertools.combinations(sorted(self.bookies), 2):
                self.between_ms(a, b)

    def between_ms(self, a: str, b: str) -> Sequence[float]:
        """Round trips between two regions. Raises InvalidArgumentError when none is given."""
        if a == b:
            return (self.local_round_trip_ms,)
        known = self.round_trip_ms or {}
        found = known.get((a, b), known.get((b, a)))
        if found is None or (isinstance(found, Sequence) and not found):
            raise InvalidArgumentError(f"no round trip given between {a} and {b}")
        return found if isinstance(found, Sequence) else (found,)

    def limited_to(self, allowed: Sequence[str]) -> "Topology":
        """With bookies only in ``allowed`` regions (() for all); metadata stays where it is.

        Raises InvalidArgumentError for a region that is not in it.
        """
        unknown = [name for name in allowed if name not in self.bookies]
        if unknown:
            there = ", ".join(sorted(self.bookies))
            raise InvalidArgumentError(f"{unknown[0]} is no region of the topology ({there})")
        if not allowed:
            return self
        kept = {name: count for name, count in self.bookies.items() if name in allowed}
        return replace(self, bookies=kept, metadata_regions=self.voters())

    def counts(self) -> dict[str | None, int]:
        """Bookies by region, as the layout search takes them."""
        return {name: count for name, count in self.bookies.items()}

    def voters(self) -> tuple[str, ...]:
        """Regions with a voting member of the metadata store."""
        return (
            tuple(sorted(self.bookies)) if self.metadata_regions is None else self.metadata_regions
        )


def topology_from(table: Mapping[str, Any]) -> Topology:
    """The topology that a table describes. Raises InvalidArgumentError naming every fault."""
    faults = [f"unknown key {key} (known: {', '.join(_KEYS)})" for key in table if key not in _KEYS]
    bookies = _bookies(table.get("regions"), faults)
    trips = None
    if "round_trip_ms" in table:
        trips = _round_trips(table["round_trip_ms"], bookies, faults)
    local = _times("local_round_trip_ms", table.get("local_round_trip_ms", 0.2), faults)
    fsync = _times("fsync_ms", table.get("fsync_ms", 0.3), faults)
    voters = table.get("metadata_regions")
    if voters is not None and not (
        isinstance(voters, list) and voters and all(isinstance(name, str) for name in voters)
    ):
        faults.append("metadata_regions must be a list of region names")
    if faults:
        raise InvalidArgumentError("\n".join(faults))
    return Topology(bookies, trips, local[0], fsync, None if voters is None else tuple(voters))


def _bookies(table: object, faults: list[str]) -> dict[str, int]:
    if not isinstance(table, Mapping) or not table:
        faults.append("regions: one table for each region, e.g. [regions.bonn] with bookies = 3")
        return {}
    found: dict[str, int] = {}
    for name, content in table.items():
        try:
            check_region(name)
        except InvalidArgumentError as error:
            faults.append(f"regions: {error}")
            continue
        count = content.get("bookies") if isinstance(content, Mapping) else content
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _BOOKIES_MAX:
            faults.append(f"regions.{name}: bookies must be a number up to {_BOOKIES_MAX}")
        elif isinstance(content, Mapping) and set(content) != {"bookies"}:
            faults.append(f"regions.{name}: the only key is bookies")
        else:
            found[name] = count
    return found


def _round_trips(
    table: object, bookies: Mapping[str, int], faults: list[str]
) -> dict[tuple[str, str], Samples]:
    if not isinstance(table, Mapping):
        faults.append("round_trip_ms: tables by region, e.g. [round_trip_ms.bonn] with oslo = 24")
        return {}
    found: dict[tuple[str, str], Samples] = {}
    for a, row in table.items():
        if not isinstance(row, Mapping):
            faults.append(f"round_trip_ms.{a} must be a table of milliseconds by region")
            continue
        for b, value in row.items():
            unknown = [name for name in (a, b) if name not in bookies]
            if unknown:
                faults.append(f"round_trip_ms.{a}.{b}: {unknown[0]} is no region of [regions]")
            found[a, b] = _times(f"round_trip_ms.{a}.{b}", value, faults)
    for a, b in itertools.combinations(sorted(bookies), 2):
        if (a, b) not in found and (b, a) not in found:
            faults.append(f"round_trip_ms: none given between {a} and {b}")
    return found


def _times(key: str, value: object, faults: list[str]) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value]
    good = tuple(
        float(one)
        for one in values
        if isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= _TIME_MS_MAX
    )
    if not good or len(good) != len(values):
        faults.append(f"{key} must be milliseconds (0 to {_TIME_MS_MAX}), or a list of them")
        return (0.0,)
    return good
