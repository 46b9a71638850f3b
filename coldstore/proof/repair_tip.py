"""Writes the tip of a chain again, from its manifests and the cluster's metadata (rule ARC-26)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...core.log.metadata.stream_description import StreamDescription
from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.protocol.segments import Residence
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import stored_merged
from ..archive.manifest import Manifest
from ..archive.relocation import Relocations, listed_relocations, read_relocations
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
    The chain begins with the oldest manifest that is left.
    """
    _check_whole(folder, manifests, stream)
    numbers = await listed_relocations(cold, folder)
    relocations = await read_relocations(cold, folder, numbers)
    await _check_relocations(cold, folder, relocations)
    first, last = manifests[0], manifests[-1]
    tip = replace(empty_tip(first), last_lssn=last.lssn, last_link=last.link)
    if relocations.last_erasure is not None:
        tip = with_erasure(tip, relocations.last_erasure)
    await stored_relocations(cold, folder, tip=tip)
    names = await listed_tips(cold, folder)
    for name in names:
        try:
            await merged_tip(cold, folder, [name])
        except NoSuchObjectError:
            continue
        except (CorruptionError, ForeignDataError):
            await cold.delete(folder.tip(name))
    return await advance_tip(cold, tip)


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


def _check_whole(
    folder: ArchiveFolder, manifests: Sequence[Manifest], stream: StreamDescription
) -> None:
    links = {
        one.lssn: one.archive_link for one in stream.segments if one.residence is not Residence.HOT
    }
    present = {one.lssn: one.link for one in manifests}
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
