"""The chain of the erasures of a stream, whose end the tip names (rule ARC-68).

Without this chain, the loss of a relocation that erased records would make them visible again for
as long as the old files exist.
"""

from collections.abc import Iterable
from dataclasses import replace

from ...core.protocol.errors import CorruptionError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.manifest import Manifest
from ..archive.relocation import (
    ErasureLink,
    Relocation,
    Relocations,
    listed_relocations,
    read_relocation,
    read_relocations,
)
from .chain_tip import ChainTip, advance_tip, lost_tip_error, read_tip


async def stored_relocations(
    cold: ColdStore,
    folder: ArchiveFolder,
    *,
    listed: Iterable[int] | None = None,
    tip: ChainTip | None = None,
) -> Relocations:
    """Return all relocations of a stream, among them every erasure that the tip proves.

    ``listed`` are their numbers according to a listing, and ``tip`` is the tip, if the caller knows
    them. Raises CorruptionError if an erasure is missing or was exchanged, or if the chain has
    relocations and no tip, and ForeignDataError.
    """
    numbers = await listed_relocations(cold, folder) if listed is None else list(listed)
    found = {one.number: one for one in (await read_relocations(cold, folder, numbers)).known}
    tip = tip or await read_tip(cold, folder)
    if tip is None:
        raise lost_tip_error(folder)
    link = _last_erasure(tip)
    while link is not None:
        if link.number not in found:  # the listing may be older than the tip
            found[link.number] = await _read_erasure(cold, folder, link.number)
        relocation = found[link.number]
        if relocation.erasure_link != link or relocation.erasure is None:
            raise CorruptionError(f"{relocation.key}: is not the erasure that the chain names")
        previous = relocation.previous_erasure
        if previous is not None and previous.number >= link.number:
            raise CorruptionError(f"{relocation.key}: the erasure before it has a higher number")
        link = previous
    return Relocations(found[number] for number in sorted(found))


async def manifest_now(cold: ColdStore, manifest: Manifest) -> Manifest:
    """Return the manifest with the parts that the segment has now. Lists the relocations.

    Raises the errors of ``stored_relocations``.
    """
    return (await stored_relocations(cold, manifest.folder)).apply(manifest)


async def cover_erasures(cold: ColdStore, folder: ArchiveFolder, relocations: Relocations) -> None:
    """Make the tip name the newest erasure. Safe to repeat.

    Only then may the files be deleted that hold the erased records. Raises CorruptionError if an
    earlier erasure is missing, because a copy that stores the newest one first was interrupted: if
    the tip named the newest one, no reader would accept the archive, and the copy could not go on.
    """
    newest, tip = relocations.last_erasure, await read_tip(cold, folder)
    if tip is None:
        raise lost_tip_error(folder)
    if newest is not None and newest.number > tip.erasure:
        covered = with_erasure(tip, newest)
        await stored_relocations(cold, folder, listed=(), tip=covered)
        await advance_tip(cold, covered)


def with_erasure(tip: ChainTip, relocation: Relocation) -> ChainTip:
    """Return the tip after an erasure."""
    number, sha256 = relocation.erasure_link
    return replace(tip, erasure=number, erasure_sha256=sha256)


def _last_erasure(tip: ChainTip) -> ErasureLink | None:
    return ErasureLink(tip.erasure, tip.erasure_sha256) if tip.erasure else None


async def _read_erasure(cold: ColdStore, folder: ArchiveFolder, number: int) -> Relocation:
    try:
        return await read_relocation(cold, folder, number)
    except NoSuchObjectError as error:
        raise CorruptionError(
            f"{folder.relocation(number)}: the erasure is missing, and without it erased records "
            "would be read: restore the object from a copy of the archive"
        ) from error
