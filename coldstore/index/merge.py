"""Joins the records of chains in several packs, and decides which packs are merged. Pure.

New records go to a small pack of their own. Packs are merged with newer ones of similar size, so
their sizes grow geometrically, and every record is written again only a few times.
"""

from collections.abc import Iterable, Mapping, Sequence

from ..archive.archive_folder import ArchiveFolder
from .pack import ChainRecord, PackedChain, packed

PACK_BYTES = 64 << 20
"""A pack ends at this size, and one that has it is no longer merged."""
_RATIO = 2
"""A pack is merged with newer ones that together have more than half of its size."""
_DEAD_MIN = 1000
"""All packs are merged if they hold this many more manifests than twice those that count."""

Chains = Mapping[ArchiveFolder, Sequence[PackedChain]]
"""The records of each chain that count, newest first."""


def chains_in(packs: Sequence[Iterable[PackedChain]]) -> dict[ArchiveFolder, list[PackedChain]]:
    """Return the records that count in ``packs``, which are given oldest first."""
    found: dict[ArchiveFolder, list[PackedChain]] = {}
    for pack in reversed(packs):
        for chain in pack:
            records = found.setdefault(chain.folder, [])
            if not records or not records[-1].is_whole:
                records.append(chain)
    return found


def lssns_in(records: Sequence[PackedChain]) -> set[int]:
    """Return the segments of a chain whose manifests the index has."""
    held = {lssn for one in records for lssn in one.sizes}
    return {lssn for lssn in held if lssn in records[0].covered} if records else set()


def joined(records: Sequence[PackedChain]) -> ChainRecord:
    """Return the tip of a chain and all manifests that the index has. Raises CorruptionError."""
    newest = records[0]
    manifests = {}
    for one in reversed(records):
        manifests.update(one.manifests(newest.covered))
    return ChainRecord(newest.folder, newest.tip(), dict(sorted(manifests.items())), True)


def packs_to_merge(sizes: Sequence[int], added: int, *, stored: int, live: int) -> int:
    """Return how many of the newest packs are merged with a new one of ``added`` bytes.

    ``sizes`` are those of the packs, oldest first; ``stored`` is the number of manifests in them,
    and ``live`` the number of those that count.
    """
    if stored > 2 * live + _DEAD_MIN:
        return len(sizes)
    count = 0
    for size in reversed(sizes):
        if size >= min(PACK_BYTES, _RATIO * added):
            break
        added += size
        count += 1
    return count


def merge(packs: Sequence[Iterable[PackedChain]], *, is_oldest: bool) -> list[PackedChain]:
    """Return the chains of ``packs``, given oldest first, as one pack has them.

    ``is_oldest`` is true if no older pack remains. Raises CorruptionError.
    """
    found = []
    for records in chains_in(packs).values():
        newest = records[0]
        if is_oldest and not newest.tip_bytes:
            continue
        is_whole = is_oldest or records[-1].is_whole
        if len(records) == 1 and newest.is_whole == is_whole:
            found.append(newest)
            continue
        manifests: dict[int, bytes] = {}
        for one in reversed(records):
            manifests.update(one.encoded(newest.covered))
        found.append(
            packed(
                newest.folder,
                newest.version,
                is_whole,
                newest.covered,
                newest.unpack()[: newest.tip_bytes],
                dict(sorted(manifests.items())),
            )
        )
    return found


def divided(chains: Iterable[PackedChain]) -> list[list[PackedChain]]:
    """Divide chains into packs of about ``PACK_BYTES``."""
    packs: list[list[PackedChain]] = []
    size = PACK_BYTES
    for chain in chains:
        if size >= PACK_BYTES:
            packs.append([])
            size = 0
        packs[-1].append(chain)
        size += len(chain.blob)
    return packs
