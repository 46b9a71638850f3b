"""Copies the relocations of an archive to another cold store, unchanged (rule ARC-69)."""

from collections.abc import Callable

from ...core.protocol.errors import CorruptionError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import scan_manifests
from ..compact.compactor import ArchiveCompactor, CompactionConfig
from ..compact.publish import note_moves
from ..proof.erasure_chain import cover_erasures, stored_relocations
from ..stores.known_outcome import put_object
from .copy_plan import CopyPlan


async def copy_relocations(
    cold: ColdStore, folder: ArchiveFolder, plan: CopyPlan, wall_ms: Callable[[], int]
) -> int:
    """Store the relocations that a target lacks; return their number. Safe to repeat.

    The files that they replace must have been copied. Old files are deleted when the grace period
    of a compaction is over. Raises CorruptionError if the target has got another relocation
    meanwhile.
    """
    if plan.relocations:
        await note_moves(cold, folder)
    for one in plan.relocations:
        if not await put_object(cold, one.key, one.encode()):
            raise CorruptionError(f"{one.key}: published by another job in {cold.uri}")
    if plan.relocations:
        await cover_erasures(cold, folder, await stored_relocations(cold, folder))
        await note_moves(cold, folder)
    if not plan.faults:
        compactor = ArchiveCompactor(cold, CompactionConfig(), wall_ms=wall_ms)
        listing = await scan_manifests(cold, f"{folder.namespace}/{folder.stream}")
        await compactor.settle(listing, folder, merges=False)
    return len(plan.relocations)
