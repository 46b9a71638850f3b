"""Appends manifests to the chains of streams (rules ARC-22 and ARC-23).

A chain grows in three steps: the tip of the empty chain, unless there is a tip; the manifest; the
tip that covers it. A crash between two of them leaves a manifest above the tip, which readers
accept, and the next attempt covers.
"""

from dataclasses import replace

from ...core.protocol.errors import CorruptionError, InvalidArgumentError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import read_manifest
from ..archive.manifest import CHAIN_START, Manifest
from ..stores.known_outcome import put_object
from .chain_tip import ChainTip, advance_tip, check_in_chain, empty_tip, lost_tip_error, read_tip


class ChainWriter:
    """Publishes manifests in one cold store. Several writers may work on the same chain."""

    def __init__(self, cold: ColdStore) -> None:
        self._cold = cold
        self._tips: dict[ArchiveFolder, ChainTip] = {}

    async def previous_link(self, folder: ArchiveFolder, lssn: int, *, oldest_lssn: int) -> str:
        """Return the link that segment ``lssn`` continues.

        A chain begins with ``oldest_lssn``, the oldest segment that the stream still has, if no
        earlier one is archived. Raises InvalidArgumentError if an earlier segment is not archived
        yet, and CorruptionError if the chain is damaged.
        """
        tip = await self._tip_before(folder, lssn)
        if tip is not None and tip.last_lssn == lssn - 1:
            return tip.last_link
        if tip is not None and tip.covers(lssn):
            raise CorruptionError(f"{folder.manifest(lssn)}: the manifest is missing")
        if lssn == oldest_lssn:
            return CHAIN_START
        raise InvalidArgumentError(
            f"stream {folder.stream}: segment {lssn - 1} must be archived before segment {lssn}"
        )

    async def publish(self, uploaded: Manifest, previous_link: str) -> Manifest:
        """Create a manifest, or return the one that another archiver published first.

        Raises CorruptionError if that one has other content.
        """
        manifest = replace(uploaded, previous_link=previous_link)
        folder = manifest.folder
        tip = await self._tip(folder)
        if tip is None or tip.last_lssn < tip.first_lssn < manifest.lssn:  # nothing was published
            self._tips[folder] = await advance_tip(self._cold, empty_tip(manifest))
        if await put_object(self._cold, manifest.key, manifest.encode()):
            return manifest
        winner = await read_manifest(self._cold, folder, manifest.lssn)
        if winner is None or winner.link != manifest.link:
            raise CorruptionError(
                f"stream {manifest.stream}: segment {manifest.lssn} is already archived with other "
                "content"
            )
        return winner

    async def cover(self, manifest: Manifest) -> None:
        """Advance the tip to a published manifest. Safe to repeat.

        Raises CorruptionError, also if the tip was lost: the one that this writer remembers may
        lack the newest erasure.
        """
        folder = manifest.folder
        tip = await read_tip(self._cold, folder)
        if tip is None:
            raise lost_tip_error(folder)
        if manifest.lssn >= tip.last_lssn:  # the same: a crash may have left older tips
            tip = await advance_tip(self._cold, tip.with_last(manifest))
            self._tips[folder] = tip
        check_in_chain(manifest, None, tip)

    async def _tip(self, folder: ArchiveFolder) -> ChainTip | None:
        tip = self._tips.get(folder) or await read_tip(self._cold, folder)
        if tip is not None:
            self._tips[folder] = tip
        return tip

    async def _tip_before(self, folder: ArchiveFolder, lssn: int) -> ChainTip | None:
        """Return the tip, advanced to segment ``lssn - 1`` if that segment has a manifest."""
        known = self._tips.get(folder)
        if known is None or known.last_lssn < lssn - 1:
            self._tips.pop(folder, None)  # another archiver may have advanced it
            known = await self._tip(folder)
        if known is None or known.last_lssn < lssn - 1:
            before = await read_manifest(self._cold, folder, lssn - 1)
            if before is not None:
                await self.cover(before)
        return self._tips.get(folder)
