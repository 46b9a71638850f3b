"""The liveness of bookies for repair: registered, closed to new data, or lost (rule RPR-4)."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import BookieUnavailableError, CorruptionError
from ...core.protocol.placement import BookieInfo, in_regions
from ...core.wire.lost_ledgers import LostLedgers
from ..states import PlacementState, PlacementStates
from ..steered_directory import SteeredDirectory

_RECENT_S = 1.0
"""Maximum age of the list of bookies in a snapshot that several repairs share."""


class Standing(Enum):
    """The standing of an ensemble member for repair."""

    PRESENT = "present"
    ABSENT = "absent"  # not registered, but it may return soon
    LEAVING = "leaving"  # drained: its copies are valid and must move elsewhere
    LOST = "lost"  # its copies count as gone


@dataclass(frozen=True, slots=True)
class Liveness:
    """A snapshot of all bookies. ``candidates`` may receive new copies."""

    states: PlacementStates
    candidates: Sequence[BookieInfo]
    present: Mapping[BookieId, BookieInfo]
    lost: Mapping[BookieId, None]
    lacking: Mapping[BookieId, LostLedgers] = field(default_factory=dict)
    """The ledgers of which present bookies say that they lack copies (rule DSK-5)."""

    def standing(self, bookie: BookieId, region: Region | None) -> Standing:
        """Return the standing of a bookie."""
        state = self.states.of(bookie, region)
        if state is PlacementState.OFFLINE or bookie in self.lost:
            return Standing.LOST
        if bookie not in self.present:
            return Standing.ABSENT
        return Standing.LEAVING if state is PlacementState.DRAINED else Standing.PRESENT

    def spare(self, members: Sequence[BookieId], allowed: Sequence[str]) -> list[BookieInfo]:
        """Return candidates in ``allowed`` regions (() for all) that are not among ``members``."""
        return [info for info in in_regions(self.candidates, allowed) if info.bookie not in members]


def by_region(bookies: Sequence[BookieInfo]) -> dict[str | None, int]:
    """Return the number of bookies in each region."""
    counts = Counter(info.region for info in bookies)
    return {region: counts[region] for region in sorted(counts, key=str)}


class LivenessMonitor:
    """Takes snapshots, and remembers since when each absent bookie has been absent."""

    def __init__(self, directory: SteeredDirectory, lost_after_ms: int) -> None:
        self._directory = directory
        self._lost_after_s = lost_after_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._absent_since: dict[BookieId, float] = {}
        self._recent: Liveness | None = None
        self._recent_at = 0.0
        self._is_taking = asyncio.Lock()
        self.writable_by_region: dict[str, int] = {}
        """Number of bookies that may receive new entries, in each region whose bookies were not all
        taken out of service by an operator; of the last snapshot."""

    async def snapshot(self) -> Liveness:
        """Read the present state. Raises MetadataUnavailableError, CorruptionError."""
        directory = self._directory
        states = await directory.states.read()
        writable = await directory.everything()
        present = {info.bookie: info for info in writable}
        for bookie in await directory.read_only():
            if bookie not in present:
                present[bookie] = await self._located(bookie)
        now = self._loop.time()
        known = dict.fromkeys([*await directory.all_known(), *self._absent_since])
        self._absent_since = {
            bookie: self._absent_since.get(bookie, now) for bookie in known if bookie not in present
        }
        lost = {
            bookie: None
            for bookie, since in self._absent_since.items()
            if now - since >= self._lost_after_s
        }
        candidates = states.open_to_new(writable)
        in_service = {
            region: 0
            for bookie in known
            if (region := await directory.region_of(bookie)) is not None
            and states.of(bookie, region) is None
        }
        counted = {str(region): n for region, n in by_region(candidates).items() if region}
        self.writable_by_region = dict(sorted((in_service | counted).items()))
        return Liveness(states, candidates, present, lost, await self._lacking(present))

    async def recent(self) -> Liveness:
        """Return a snapshot that is shared with other calls and at most 1 s old.

        Its placement states are always read anew: a repair that starts after an operator's command
        returned obeys it. Only which bookies are registered may be old, as in any snapshot by the
        time it is used. Raises like ``snapshot``.
        """
        states = await self._directory.states.read()
        async with self._is_taking:
            recent = self._recent
            now = self._loop.time()
            if recent is None or recent.states != states or now - self._recent_at > _RECENT_S:
                self._recent = recent = await self.snapshot()
                self._recent_at = now
            return recent

    async def _lacking(self, present: Iterable[BookieId]) -> dict[BookieId, LostLedgers]:
        found: dict[BookieId, LostLedgers] = {}
        for bookie in present:
            with suppress(BookieUnavailableError, CorruptionError):  # it left meanwhile
                if lost := (await self._directory.registration(bookie)).lost_ledgers:
                    found[bookie] = lost
        return found

    async def _located(self, bookie: BookieId) -> BookieInfo:
        """Return a read-only bookie with its location, since its copies count for the spread."""
        directory = self._directory
        with suppress(BookieUnavailableError, CorruptionError):  # then its location is not known
            await directory.registration(bookie)
        return directory.last_known(bookie, await directory.region_of(bookie))

    def note_members(self, bookies: Sequence[BookieId], liveness: Liveness) -> None:
        """Count members without a cookie (decommissioned bookies) as absent from now on."""
        now = self._loop.time()
        for bookie in bookies:
            if bookie not in liveness.present:
                self._absent_since.setdefault(bookie, now)

    def next_loss_s(self) -> float | None:
        """Return the seconds until the next absent bookie counts as lost; None if none will."""
        now = self._loop.time()
        left = [
            self._lost_after_s - (now - since)
            for since in self._absent_since.values()
            if now - since < self._lost_after_s
        ]
        return min(left, default=None)
