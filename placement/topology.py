"""Topologies for planning: regions with bookies, round trips, fsync times and metadata voters.

``topology_from`` reads the table of a TOML file and reports all faults at once.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.protocol.bookie_id import BookieId, Region, check_region
from ..core.protocol.errors import InvalidArgumentError
from ..core.protocol.placement import BookieInfo

Samples = float | Sequence[float]
"""One time in milliseconds, or measured samples to draw from."""

REGIONS_MAX = 12
"""Most regions of a topology: a plan tries every set of lost regions, 2^12 in about a second."""

_TIME_MS_MAX = 60_000
_BOOKIES_MAX = 10_000
_KEYS = ("regions", "round_trip_ms", "local_round_trip_ms", "fsync_ms", "metadata_regions")


@dataclass(frozen=True, slots=True)
class Topology:
    """Regions with their numbers of bookies, and round trips between regions in milliseconds.

    ``round_trip_ms[a, b]`` holds each unordered pair, in either order; within a region
    ``local_round_trip_ms`` applies. None means unknown: the plan then has no latencies.
    ``fsync_ms``: measured samples of one durable write. ``metadata_regions``: regions with a voting
    member of the metadata store (default: all).
    """

    bookies: Mapping[str, int]
    round_trip_ms: Mapping[tuple[str, str], Samples] | None
    local_round_trip_ms: float = 0.2
    fsync_ms: Sequence[float] = (0.3,)
    metadata_regions: tuple[str, ...] | None = None
    hosts: Mapping[str, int] = field(default_factory=dict)
    """The hosts that the bookies of a region share evenly; a region without it: one for each."""

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
        """Return the round trips between two regions. Raises InvalidArgumentError if unknown."""
        if a == b:
            return (self.local_round_trip_ms,)
        known = self.round_trip_ms or {}
        found = known.get((a, b), known.get((b, a)))
        if found is None or (isinstance(found, Sequence) and not found):
            raise InvalidArgumentError(f"no round trip given between {a} and {b}")
        return found if isinstance(found, Sequence) else (found,)

    def limited_to(self, allowed: Sequence[str]) -> "Topology":
        """Return a topology with bookies only in ``allowed`` regions; () allows all.

        The metadata voters do not change. Raises InvalidArgumentError for an unknown region.
        """
        unknown = [name for name in allowed if name not in self.bookies]
        if unknown:
            names = ", ".join(sorted(self.bookies))
            raise InvalidArgumentError(f"unknown region {unknown[0]}; the topology has {names}")
        if not allowed:
            return self
        kept = {name: count for name, count in self.bookies.items() if name in allowed}
        return replace(self, bookies=kept, metadata_regions=self.voters())

    def planned_bookies(self) -> list[BookieInfo]:
        """Return a bookie for each planned one, with its region and its host."""
        return [
            BookieInfo(
                BookieId(f"{name}-{number}"),
                Region(name),
                host=f"host-{number % self.hosts.get(name, count)}",
            )
            for name, count in sorted(self.bookies.items())
            for number in range(count)
        ]

    def counts(self) -> dict[str | None, int]:
        """Return the number of bookies by region, in the type that the layout search takes."""
        return {name: count for name, count in self.bookies.items()}

    def voters(self) -> tuple[str, ...]:
        """Return the regions with a voting member of the metadata store."""
        return (
            tuple(sorted(self.bookies)) if self.metadata_regions is None else self.metadata_regions
        )


def topology_from(table: Mapping[str, Any]) -> Topology:
    """Build a topology from a table. Raises InvalidArgumentError that names every fault."""
    faults = [f"unknown key {key} (known: {', '.join(_KEYS)})" for key in table if key not in _KEYS]
    bookies, hosts = _bookies_and_hosts(table.get("regions"), faults)
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
    voting = None if voters is None else tuple(voters)
    return Topology(bookies, trips, local[0], fsync, voting, hosts)


def _bookies_and_hosts(table: object, faults: list[str]) -> tuple[dict[str, int], dict[str, int]]:
    if not isinstance(table, Mapping) or not table:
        faults.append("regions: one table for each region, e.g. [regions.bonn] with bookies = 3")
        return {}, {}
    found: dict[str, int] = {}
    hosts: dict[str, int] = {}
    for name, content in table.items():
        try:
            check_region(name)
        except InvalidArgumentError as error:
            faults.append(f"regions: {error}")
            continue
        count = content.get("bookies") if isinstance(content, Mapping) else content
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _BOOKIES_MAX:
            faults.append(f"regions.{name}: bookies must be an integer from 0 to {_BOOKIES_MAX}")
        elif isinstance(content, Mapping) and not set(content) <= {"bookies", "hosts"}:
            faults.append(f"regions.{name}: unknown keys; the keys are bookies and hosts")
        else:
            found[name] = count
            if isinstance(content, Mapping) and "hosts" in content:
                hosts[name] = _host_count(name, content["hosts"], count, faults)
    return found, hosts


def _host_count(region: str, value: object, bookies: int, faults: list[str]) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= max(1, bookies):
        faults.append(f"regions.{region}: hosts must be an integer from 1 to {max(1, bookies)}")
        return 1
    return value


def _round_trips(
    table: object, bookies: Mapping[str, int], faults: list[str]
) -> dict[tuple[str, str], Samples]:
    if not isinstance(table, Mapping):
        faults.append(
            "round_trip_ms: one table for each region, e.g. [round_trip_ms.bonn] with oslo = 24"
        )
        return {}
    found: dict[tuple[str, str], Samples] = {}
    for a, row in table.items():
        if not isinstance(row, Mapping):
            faults.append(f"round_trip_ms.{a} must be a table of milliseconds by region")
            continue
        for b, value in row.items():
            unknown = [name for name in (a, b) if name not in bookies]
            if unknown:
                faults.append(
                    f"round_trip_ms.{a}.{b}: unknown region {unknown[0]}; add it to [regions]"
                )
            found[a, b] = _times(f"round_trip_ms.{a}.{b}", value, faults)
    for a, b in itertools.combinations(sorted(bookies), 2):
        if (a, b) not in found and (b, a) not in found:
            faults.append(f"round_trip_ms: no value between {a} and {b}")
    return found


def _times(key: str, value: object, faults: list[str]) -> tuple[float, ...]:
    values = value if isinstance(value, list) else [value]
    good = tuple(
        float(item)
        for item in values
        if isinstance(item, int | float)
        and not isinstance(item, bool)
        and 0 <= item <= _TIME_MS_MAX
    )
    if not good or len(good) != len(values):
        faults.append(f"{key} must be milliseconds (0 to {_TIME_MS_MAX}), or a list of them")
        return (0.0,)
    return good
