"""Decides what a copy of an archive lacks: segments, newer files, and relocations. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..archive.manifest import CHAIN_START, Manifest
from ..archive.relocation import Relocation, Relocations
from ..compact.permission import has_moved


class StoredArchive(NamedTuple):
    """The archive of one stream in one cold store."""

    manifests: Mapping[int, Manifest]
    """By LSSN, with the parts that the segments have now."""
    relocations: Relocations
    first_lssn: int = 0
    """The first segment of the chain; retention has deleted older ones."""


class CopyPlan(NamedTuple):
    """The objects of a stream's archive that are copied, and what contradicts the target."""

    segments: Sequence[Manifest]
    """Segments that the target lacks, in order."""
    moved: Sequence[Manifest]
    """Segments that it has in other files. Their files are copied before ``relocations``."""
    relocations: Sequence[Relocation]
    """Relocations that it lacks, the newest first: once one is copied, it counts."""
    faults: Mapping[str, str]
    """Errors by key."""
    known: Relocations
    """The relocations of the source from which the plan was made."""

    @property
    def needs_relocations(self) -> bool:
        """True if only programs that know relocations can read the copy."""
        return bool(self.relocations) or has_moved(self.segments)


def plan_copy(source: StoredArchive, target: StoredArchive) -> CopyPlan:
    """Return what the target lacks of an archive.

    Segments that retention has deleted in the target are not copied again. Relocations are copied
    unchanged, so that the target proves the same erasures. A target that was compacted or erased by
    itself has other relocations. It then gets only segments from which nothing was erased.
    """
    theirs, known = target.manifests, source.relocations
    ours = {lssn: one for lssn, one in source.manifests.items() if lssn >= target.first_lssn}
    if faults := _contradictions(ours, theirs):
        return CopyPlan((), (), (), faults, known)
    if _has_others(known, target.relocations):
        faults = _unproved(ours, theirs)
        usable = {lssn: one for lssn, one in ours.items() if one.key not in faults}
        missing, gaps = _continuing(usable, theirs)
        return CopyPlan(missing, (), (), faults or gaps, known)
    missing, faults = _continuing(ours, theirs)
    held = {one.number for one in target.relocations.known}
    new = [one for one in reversed(known.known) if one.number not in held]
    moved = [
        one
        for lssn, one in sorted(ours.items())
        if lssn in theirs and theirs[lssn].parts != one.parts
    ]
    return CopyPlan(missing, moved, new, faults, known)


def _contradictions(ours: Mapping[int, Manifest], theirs: Mapping[int, Manifest]) -> dict[str, str]:
    return {
        one.key: f"{one.key}: the target has another archive of this segment"
        for lssn, one in sorted(ours.items())
        if lssn in theirs and theirs[lssn].link != one.link
    }


def _continuing(
    ours: Mapping[int, Manifest], theirs: Mapping[int, Manifest]
) -> tuple[list[Manifest], dict[str, str]]:
    """Return the segments that the target lacks up to the first gap, and the gap as a fault.

    Behind a gap, the chain of the target would not verify.
    """
    last = max(theirs, default=None)
    missing: list[Manifest] = []
    for lssn, one in sorted(ours.items()):
        if lssn in theirs:
            continue
        begins = one.previous_link == CHAIN_START
        if last is not None and lssn != last + 1 and not begins:
            text = (
                f"{one.key}: not copied, because segment {lssn - 1} is neither in the target nor, "
                "in a usable form, in the source (if retention has deleted it there, copy the "
                "stream to another store)"
            )
            return missing, {one.key: text}
        missing.append(one)
        last = lssn
    return missing, {}


def _unproved(ours: Mapping[int, Manifest], theirs: Mapping[int, Manifest]) -> dict[str, str]:
    """Return errors for segments with an erasure that the target lacks and cannot prove."""
    held = {lssn: one.erased for lssn, one in theirs.items()}
    return {
        one.key: f"{one.key}: records were erased, and the target was compacted or erased by "
        "itself, so the proof cannot be copied: repeat the erasure there"
        for lssn, one in sorted(ours.items())
        if one.erased != held.get(lssn, ())
    }


def _has_others(source: Relocations, target: Relocations) -> bool:
    """True if the target has relocations that were not copied from the source.

    The source may have deleted older ones, which newer ones replace, but never an erasure.
    """
    ours = {one.number: one for one in source.known}
    return any(
        one != ours.get(one.number, one)
        or one.number > source.last_number
        or (one.erasure is not None and one.number not in ours)
        for one in target.known
    )
