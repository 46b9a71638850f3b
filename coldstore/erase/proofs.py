"""The proofs of erasures: who erased which records, when and why (rule ARC-66)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import listed_archives
from ..archive.relocation import Erasure, Relocation, Relocations
from ..proof.erasure_chain import stored_relocations
from .erased_set import ErasedSet, half_open_ranges


class ErasedRange(NamedTuple):
    """Consecutive records of one entry that were erased."""

    lssn: int
    entry_id: int
    first_slot: int
    last_slot: int


class ErasureProof(NamedTuple):
    """One erasure of records of a stream, as its relocation proves it."""

    relocation: Relocation
    erasure: Erasure
    ranges: Sequence[ErasedRange]
    """The records that it erased in addition to the erasures before it, in order of position."""

    @property
    def records(self) -> dict[int, int]:
        """The number of records that it erased, by segment."""
        found: dict[int, int] = {}
        for one in self.ranges:
            count = one.last_slot + 1 - one.first_slot
            found[one.lssn] = found.get(one.lssn, 0) + count
        return found


def proofs(relocations: Relocations) -> list[ErasureProof]:
    """Return the erasures of a stream, in order."""
    found: list[ErasureProof] = []
    before: dict[int, set[tuple[int, int]]] = {}
    for one in relocations.known:
        if one.erasure is None:
            continue
        ranges: list[ErasedRange] = []
        for segment in sorted(one.segments, key=lambda moved: moved.lssn):
            positions = _positions(segment.erased)
            new = positions - before.get(segment.lssn, set())
            before[segment.lssn] = positions
            ranges += _ranges(segment.lssn, new)
        found.append(ErasureProof(one, one.erasure, ranges))
    return found


async def stored_proofs(
    cold: ColdStore, prefix: str = ""
) -> tuple[dict[ArchiveFolder, list[ErasureProof]], dict[ArchiveFolder, Exception]]:
    """Return the erasures of each archive below ``prefix``, and the errors of damaged archives.

    Raises the errors of the cold store.
    """
    found: dict[ArchiveFolder, list[ErasureProof]] = {}
    faults: dict[ArchiveFolder, Exception] = {}
    for folder in await listed_archives(cold, prefix):
        try:
            found[folder] = proofs(await stored_relocations(cold, folder))
        except (CorruptionError, ForeignDataError) as error:
            faults[folder] = error
    return found, faults


def _positions(sets: Iterable[ErasedSet]) -> set[tuple[int, int]]:
    return {(one.entry_id, slot) for one in sets for ends in one.erased for slot in range(*ends)}


def _ranges(lssn: int, positions: Iterable[tuple[int, int]]) -> list[ErasedRange]:
    slots: dict[int, list[int]] = {}
    for entry_id, slot in positions:
        slots.setdefault(entry_id, []).append(slot)
    return [
        ErasedRange(lssn, entry_id, begin, end - 1)
        for entry_id in sorted(slots)
        for begin, end in half_open_ranges(slots[entry_id])
    ]
