"""Decides which files of an archive are no longer needed. Pure (rule ARC-63)."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from ..archive.archive_folder import MergedName
from ..archive.manifest import Manifest
from ..archive.relocation import Relocation

ORPHAN_AGE_MS = 24 * 3_600_000
"""Age at which a staged file that no relocation names counts as left behind by a crash.

If its records have moved since, the file cannot be published any more, and does not stay so long:
it may hold records that were erased."""


@dataclass(frozen=True, slots=True)
class ArchiveFiles:
    """The files of a stream's archive, and what names them. The archive has no damaged object."""

    manifests: Mapping[int, Manifest]
    """Manifests by LSSN, with the parts that the segments have now."""
    relocations: Sequence[Relocation]
    covered: range
    """The segments that the archive must hold."""
    parts: Mapping[int, Sequence[str]]
    """Stored files of single segments, by LSSN."""
    merged: Sequence[MergedName]
    """Stored files of several segments."""


def unused_files(files: ArchiveFiles, now_ms: int, grace_ms: int) -> list[str]:
    """Return the names of files whose records were moved at least ``grace_ms`` ago.

    Files in the folder stay until their records lie in another one there, because tools that open
    the folder do not see staged files.
    """
    live = {part.name for one in files.manifests.values() for part in one.parts}
    moved_ms: dict[int, list[int]] = {}
    named: set[str] = set()
    for relocation in files.relocations:
        for segment in relocation.segments:
            moved_ms.setdefault(segment.lssn, []).append(relocation.created_ms)
            named.update(part.name for part in segment.parts)
    unused = [
        name
        for lssn, names in files.parts.items()
        if lssn in moved_ms
        and lssn in files.manifests
        and min(moved_ms[lssn]) <= now_ms - grace_ms
        and not is_staged(files.manifests[lssn])
        for name in names
        if name not in live
    ]
    for one in files.merged:
        lssns = range(one.first_lssn, one.last_lssn + 1)
        newest_ms = max((ms for lssn in lssns for ms in moved_ms.get(lssn, [])), default=0)
        known = [files.manifests[lssn] for lssn in lssns if lssn in files.manifests]
        if not one.is_staged and any(map(is_staged, known)):
            may_go = False  # tools that open the folder do not see the file that replaces it
        elif str(one) in named or _is_abandoned(one, live, newest_ms):
            may_go = newest_ms <= now_ms - grace_ms
        else:
            is_outdated = one.created_ms < newest_ms <= now_ms - grace_ms
            is_orphan = one.created_ms <= now_ms - ORPHAN_AGE_MS or is_outdated
            may_go = one.is_staged and is_orphan
        is_expired = one.last_lssn < files.covered.start
        is_known = one.last_lssn < files.covered.stop
        if str(one) not in live and is_known and (may_go or is_expired):
            unused.append(str(one))
    return unused


def _is_abandoned(one: MergedName, live: Container[str], newest_ms: int) -> bool:
    """True if a merged file was copied, and its records moved before a relocation named the copy.

    Such a relocation can only be published while the records lie in the staged file. A copy of an
    archive gets files before their relocations, which are then newer than all that it has.
    """
    is_moved = str(one._replace(is_staged=True)) not in live and newest_ms > one.created_ms
    return not one.is_staged and is_moved


def superseded(
    relocations: Sequence[Relocation], left: Container[str], now_ms: int, grace_ms: int
) -> list[Relocation]:
    """Return relocations all of whose segments moved again at least ``grace_ms`` ago.

    The newest one is never among them, so numbers never fall, and neither are erasures, nor those
    that name a file of ``left``: it could not be told apart from one that is still needed.
    """
    found: list[Relocation] = []
    later: set[int] = set()
    for relocation in reversed(relocations):
        lssns = {one.lssn for one in relocation.segments}
        is_needed = relocation is relocations[-1] or relocation.erasure is not None
        names = {part.name for one in relocation.segments for part in one.parts}
        if not is_needed and lssns <= later and not any(name in left for name in names):
            found.append(relocation)
        if relocation.created_ms <= now_ms - grace_ms:
            later |= lssns
    return found


def is_staged(manifest: Manifest) -> bool:
    """True if the records of a segment lie in a staged file now."""
    names = (MergedName.parse(part.name) for part in manifest.parts)
    return any(name is not None and name.is_staged for name in names)
