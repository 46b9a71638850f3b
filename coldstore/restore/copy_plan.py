"""Decides what a copy of an archive lacks: segments, newer files, and relocations. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..archive.manifest import Manifest
from ..archive.relocation import Relocation, Relocations


class StoredArchive(NamedTuple):
    """The archive of one stream in one cold store."""

    manifests: Mapping[int, Manifest]
    """By LSSN, with the parts that the segments have now."""
    relocations: Relocations


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


def plan_copy(source: StoredArchive, target: StoredArchive) -> CopyPlan:
    """Return what the target lacks of an archive.

    Relocations are copied unchanged, so that the target proves the same erasures. A target that was
    compacted or erased by itself has other relocations. It then gets only segments from which
    nothing was erased.
    """
    ours, theirs = source.manifests, target.manifests
    faults = {
        one.key: f"{one.key}: the target has another archive of this segment"
        for lssn, one in sorted(ours.items())
        if lssn in theirs and theirs[lssn].link != one.link
    }
    missing = [one for lssn, one in sorted(ours.items()) if lssn not in theirs]
    if faults:
        return CopyPlan((), (), (), faults)
    if _has_others(source.relocations, target.relocations):
        faults = _unproved(ours, theirs)
        end = min((one.lssn for one in missing if one.key in faults), default=2**63)
        return CopyPlan([one for one in missing if one.lssn < end], (), (), faults)
    known = {one.number for one in target.relocations.known}
    new = [one for one in reversed(source.relocations.known) if one.number not in known]
    moved = [
        one
        for lssn, one in sorted(ours.items())
        if lssn in theirs and theirs[lssn].parts != one.parts
    ]
    return CopyPlan(missing, moved, new, faults)


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
