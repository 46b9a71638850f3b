"""Writes the tip of a chain again, from its manifests and the cluster's metadata (rule ARC-26)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...core.log.metadata.stream_description import StreamDescription
from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.protocol.segments import Residence
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.manifest import Manifest
from .chain_tip import ChainTip, advance_tip, empty_tip, listed_tips, merged_tip


async def repair_tip(
    cold: ColdStore,
    folder: ArchiveFolder,
    manifests: Sequence[Manifest],
    stream: StreamDescription,
) -> ChainTip:
    """Replace a lost or damaged tip. ``manifests`` are all that can be read, in order.

    Raises CorruptionError unless they prove, with the metadata of the stream, that no segment is
    missing which the cluster still has. The chain begins with the oldest manifest that is left.
    """
    _check_whole(folder, manifests, stream)
    names = await listed_tips(cold, folder)
    for name in names:
        try:
            await merged_tip(cold, folder, [name])
        except NoSuchObjectError:
            continue
        except (CorruptionError, ForeignDataError):
            await cold.delete(folder.tip(name))
    first, last = manifests[0], manifests[-1]
    tip = replace(empty_tip(first), last_lssn=last.lssn, last_link=last.link)
    return await advance_tip(cold, tip)


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
