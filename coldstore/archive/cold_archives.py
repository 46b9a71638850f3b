"""Opens, checks and deletes the archives of a namespace's segments for ``core/log``."""

from collections.abc import Sequence

from ...core.log.ledger_interface import ReadableLedger
from ...core.protocol.dlsn import STREAM_ID_CHARACTERS
from ...core.protocol.errors import CorruptionError, NoSuchLedgerError, NoSuchObjectError
from ...core.protocol.segments import Segment
from ...core.runtime.cold_store import ColdStore
from ..ledger.archived_ledger import ArchivedLedger
from ..proof.chain_tip import raise_first, read_tip
from ..proof.erasure_chain import manifest_now
from .archive_folder import ArchiveFolder, MergedName
from .catalog import archived_lssns, read_manifest, stored_merged, stored_parts
from .manifest import Manifest

EXPIRED_PER_CALL_MAX = 1000


class ColdArchives:
    """See Archives. The caller that opened the cold store closes it."""

    def __init__(self, cold: ColdStore, namespace: str) -> None:
        self._cold = cold
        self._namespace = namespace

    async def open(self, stream: str, segment: Segment) -> ReadableLedger:
        """See Archives."""
        manifest = await self._manifest(stream, segment)
        if manifest is None:
            raise NoSuchLedgerError(f"stream {stream}: segment {segment.lssn} has no archive")
        now = await manifest_now(self._cold, manifest)  # the old files may hold erased records
        try:
            return await ArchivedLedger(self._cold, now, segment.ledger_id).open()
        except NoSuchLedgerError:
            later = await manifest_now(self._cold, manifest)
            if later == now:
                raise
            return await ArchivedLedger(self._cold, later, segment.ledger_id).open()

    async def check(self, stream: str, segment: Segment) -> None:
        """See Archives."""
        manifest = await self._manifest(stream, segment)
        if manifest is None:
            raise CorruptionError(
                f"stream {stream}: the archive of segment {segment.lssn} is missing"
            )
        manifest = await manifest_now(self._cold, manifest)
        for part in manifest.parts:
            key = manifest.part_key(part)
            try:
                found = await self._cold.stat(key)
            except NoSuchObjectError as error:
                raise CorruptionError(f"{key}: the part is missing") from error
            if found.size_bytes != part.size_bytes or found.sha256 not in (None, part.sha256):
                raise CorruptionError(
                    f"{key}: {found.size_bytes} bytes with SHA-256 {found.sha256}, "
                    f"the manifest lists {part.size_bytes} bytes with SHA-256 {part.sha256}"
                )

    async def expire(
        self, stream: str, identity: str, *, below: int, completed_by_ms: int
    ) -> list[int]:
        """See Archives. The listing may lack an archive, which a later call then deletes.

        The segments of a merged file expire together, when the last of them may.

        The chain's recorded beginning moves first, so no reader takes the deletion for damage.
        """
        expired: list[int] = []
        folder = ArchiveFolder(self._namespace, stream, identity[:STREAM_ID_CHARACTERS])
        parts = await stored_parts(self._cold, folder)
        merged = await stored_merged(self._cold, folder)
        for lssn in sorted({*parts, *await archived_lssns(self._cold, folder)}):
            if lssn >= below or len(expired) == EXPIRED_PER_CALL_MAX:
                break
            manifest = await read_manifest(self._cold, folder, lssn)
            if manifest is not None and manifest.completed_ms > completed_by_ms:
                break
            expired.append(lssn)
        expired = _whole_files(expired, merged)
        tip = await read_tip(self._cold, folder) if expired else None
        if tip is not None:
            await raise_first(self._cold, tip, expired[-1] + 1)
        for lssn in expired:
            await self._cold.delete(folder.manifest(lssn))  # parts without it are no archive
            for name in parts.get(lssn, ()):
                await self._cold.delete(folder.part(name))
        for one in merged:
            if expired and one.last_lssn <= expired[-1]:
                await self._cold.delete(folder.part(str(one)))
        return expired

    async def _manifest(self, stream: str, segment: Segment) -> Manifest | None:
        folder = ArchiveFolder(self._namespace, stream, segment.stream_id)
        manifest = await read_manifest(self._cold, folder, segment.lssn)
        if manifest is None:
            return None
        if segment.archive_link and manifest.link != segment.archive_link:
            raise CorruptionError(
                f"{manifest.key}: the link of the archive is {manifest.link}, that in the metadata "
                f"of the cluster is {segment.archive_link}"
            )
        found = (manifest.last_entry_id, manifest.record_count, manifest.start_sequence_id)
        known = (segment.last_entry_id, segment.record_count, segment.start_sequence_id)
        if found != known:
            raise CorruptionError(
                f"stream {stream}: the archive of segment {segment.lssn} is of another segment: "
                f"last entry, records and start are {found}, those in the metadata are {known}"
            )
        return manifest


def _whole_files(expired: list[int], merged: Sequence[MergedName]) -> list[int]:
    """Return the segments, which are ascending, without those that share a file with later ones."""
    for one in sorted(merged, key=lambda name: name.first_lssn, reverse=True):
        if expired and one.first_lssn <= expired[-1] < one.last_lssn:
            expired = [lssn for lssn in expired if lssn < one.first_lssn]
    return expired
