"""Rewrites a lost tip of a chain if manifests and metadata prove it (rules ARC-26 and ARC-73)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ...core.log.metadata.stream_description import StreamDescription
from ...core.protocol.errors import (
    CorruptionError,
    NoSuchObjectError,
    UnavailableError,
)
from ...core.protocol.segments import Residence
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, TipName
from ..archive.catalog import read_manifest, stored_merged
from ..archive.manifest import Manifest
from ..archive.relocation import Relocations, listed_relocations, read_relocations
from ..index.indexed_tips import indexed_tips
from ..stores.known_outcome import put_object
from .chain_tip import ChainTip, advance_tip, empty_tip, listed_tips, merged_tip
from .erasure_chain import stored_relocations, with_erasure


async def repair_tip(
    cold: ColdStore,
    folder: ArchiveFolder,
    manifests: Sequence[Manifest],
    stream: StreamDescription,
) -> ChainTip:
    """Replace a lost or damaged tip. ``manifests`` are all that can be read, in order.

    Raises CorruptionError unless they prove, with the metadata of the stream, that no segment is
    missing which the cluster still has, and the files of the archive that no erasure is missing.
    The names of damaged tips, and the index of the namespace, must not contradict that.
    The chain begins with the oldest manifest that is left, or where such a name says that it does.
    Raises UnavailableError if the metadata may be old, and ForeignDataError for a tip or a
    relocation of another format, which is kept.
    """
    if stream.metadata_age_ms is not None:
        raise UnavailableError(
            f"{folder.tips}: the metadata of the stream is {stream.metadata_age_ms} ms old and may "
            "lack archived segments: repeat this when the metadata store is available"
        )
    _check_whole(folder, manifests, stream)
    numbers = await listed_relocations(cold, folder)
    relocations = await read_relocations(cold, folder, numbers)
    await _check_relocations(cold, folder, relocations)
    await _check_erased(cold, manifests, relocations)
    first, last = manifests[0], manifests[-1]
    tip = replace(empty_tip(first), last_lssn=last.lssn, last_link=last.link)
    if relocations.last_erasure is not None:
        tip = with_erasure(tip, relocations.last_erasure)
    await stored_relocations(cold, folder, tip=tip)
    names = await listed_tips(cold, folder)
    tip = _within(tip, [*names, *await indexed_tips(cold, folder)], stream)
    damaged = await _damaged_tips(cold, folder, names)
    if tip.name not in damaged:  # otherwise the damaged one has its key, and says nothing else
        await put_object(cold, folder.tip(tip.name), tip.encode())
    for name in damaged:
        await cold.delete(folder.tip(name))
    return await advance_tip(cold, tip)


async def _damaged_tips(
    cold: ColdStore, folder: ArchiveFolder, names: Iterable[TipName]
) -> list[TipName]:
    """Return the names of damaged tips. Raises ForeignDataError."""
    found: list[TipName] = []
    for name in names:
        try:
            await merged_tip(cold, folder, [name])
        except NoSuchObjectError:
            continue
        except CorruptionError:
            found.append(name)
    return found


def _within(tip: ChainTip, names: Iterable[TipName], stream: StreamDescription) -> ChainTip:
    """Return the tip, which must not be below any number that a former tip had.

    Raises CorruptionError if a former tip named a segment that is neither archived nor on bookies,
    or an erasure that is missing.
    """
    hot = {one.lssn for one in stream.segments if one.residence is Residence.HOT}
    for name in sorted(set(names)):
        lost = name.last_lssn
        while lost > tip.last_lssn and lost in hot:
            lost -= 1
        if lost > tip.last_lssn:
            raise CorruptionError(
                f"{tip.folder.manifest(lost)}: missing, although the tip {name} named the segment"
            )
        if name.erasure > tip.erasure:
            raise CorruptionError(
                f"{tip.folder.relocation(name.erasure)}: the erasure is missing, although the tip "
                f"{name} named it: restore the object from a copy of the archive"
            )
        begin = min(name.first_lssn, tip.last_lssn + 1)
        tip = replace(tip, first_lssn=max(tip.first_lssn, begin))
    return tip


async def _check_relocations(
    cold: ColdStore, folder: ArchiveFolder, relocations: Relocations
) -> None:
    """Raise CorruptionError if a file suggests that a relocation was lost: it may be an erasure."""
    named = {
        part.name for one in relocations.known for moved in one.segments for part in moved.parts
    }
    for name in await stored_merged(cold, folder):
        if str(name) not in named:
            raise CorruptionError(
                f"{folder.part(str(name))}: no relocation names the file, so an erasure may be "
                "missing; delete the file if a job that was killed has left it behind"
            )


async def _check_erased(
    cold: ColdStore, manifests: Sequence[Manifest], relocations: Relocations
) -> None:
    """Raise CorruptionError if records are erased according to a later relocation only.

    The erasure itself, with its author and reason, is then missing.
    """
    proved = {
        moved.lssn: moved.erased
        for one in relocations.known
        if one.erasure is not None
        for moved in one.segments
    }
    for manifest in manifests:
        expected = proved.get(manifest.lssn)
        if expected is None and manifest.erased:  # those of a restored stream name them themselves
            own = await read_manifest(cold, manifest.folder, manifest.lssn)
            expected = None if own is None else own.erased
        if manifest.erased != (expected or ()):
            raise CorruptionError(
                f"{manifest.folder.relocations}: no erasure proves which records of segment "
                f"{manifest.lssn} were erased: it is missing, restore it from a copy of the archive"
            )


def _check_whole(
    folder: ArchiveFolder, manifests: Sequence[Manifest], stream: StreamDescription
) -> None:
    links = {
        one.lssn: one.archive_link for one in stream.segments if one.residence is not Residence.HOT
    }
    present = {one.lssn: one.link for one in manifests}
    for one in manifests:
        if one.stream_identity != stream.identity:
            raise CorruptionError(
                f"{one.key}: of the stream {one.stream_identity}, not {stream.identity}"
            )
    if not manifests or max(links, default=0) > manifests[-1].lssn:
        raise CorruptionError(f"{folder.chain}: the manifests of archived segments are missing")
    for lssn, link in links.items():
        if present.get(lssn) != link:
            raise CorruptionError(
                f"{folder.manifest(lssn)}: missing, or not the archive that the cluster records"
            )
    for previous, one in pairwise(manifests):
        if not one.follows(previous):
            raise CorruptionError(f"{one.key}: does not follow segment {previous.lssn}")
