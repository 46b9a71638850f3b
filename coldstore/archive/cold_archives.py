"""Opens, checks and deletes the archives of a namespace's segments for ``core/log``."""

from ...core.log.ledger_interface import ReadableLedger
from ...core.protocol.errors import CorruptionError, NoSuchLedgerError, NoSuchObjectError
from ...core.protocol.segments import Segment
from ...core.runtime.cold_store import ColdStore
from .archived_ledger import ArchivedLedger
from .catalog import listed_lssns, read_manifest
from .manifest import Manifest, manifest_key, segment_folder

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
        return await ArchivedLedger(self._cold, manifest, segment.ledger_id).open()

    async def check(self, stream: str, segment: Segment) -> None:
        """See Archives."""
        manifest = await self._manifest(stream, segment)
        if manifest is None:
            raise CorruptionError(
                f"stream {stream}: the archive of segment {segment.lssn} is missing"
            )
        folder = segment_folder(self._namespace, stream, segment.lssn)
        for part in manifest.parts:
            try:
                found = await self._cold.stat(f"{folder}/{part.name}")
            except NoSuchObjectError as error:
                raise CorruptionError(f"{folder}/{part.name}: the part is missing") from error
            if found.size_bytes != part.size_bytes or found.sha256 not in (None, part.sha256):
                raise CorruptionError(
                    f"{folder}/{part.name}: {found.size_bytes} bytes with SHA-256 {found.sha256}, "
                    f"the manifest lists {part.size_bytes} bytes with SHA-256 {part.sha256}"
                )

    async def expire(
        self, stream: str, identity: str, *, below: int, completed_by_ms: int
    ) -> list[int]:
        """See Archives. The listing may lack an archive, which a later call then deletes."""
        expired: list[int] = []
        for lssn in await listed_lssns(self._cold, self._namespace, stream):
            if lssn >= below or len(expired) == EXPIRED_PER_CALL_MAX:
                break
            manifest = await read_manifest(self._cold, self._namespace, stream, lssn)
            if manifest is not None:
                if manifest.stream_identity != identity:
                    continue  # of a deleted stream that had the same name
                if manifest.completed_ms > completed_by_ms:
                    break
            await self._delete(stream, lssn)
            expired.append(lssn)
        return expired

    async def _delete(self, stream: str, lssn: int) -> None:
        """Delete the manifest first, because parts without it are no archive."""
        await self._cold.delete(manifest_key(self._namespace, stream, lssn))
        for key in await self._cold.list(segment_folder(self._namespace, stream, lssn)):
            await self._cold.delete(key)

    async def _manifest(self, stream: str, segment: Segment) -> Manifest | None:
        manifest = await read_manifest(self._cold, self._namespace, stream, segment.lssn)
        if manifest is None:
            return None
        if manifest.stream_id != segment.stream_id:
            raise CorruptionError(
                f"stream {stream}: the archive of segment {segment.lssn} is of another stream: "
                f"its id is {manifest.stream_id}, not {segment.stream_id}"
            )
        found = (manifest.last_entry_id, manifest.record_count, manifest.start_sequence_id)
        known = (segment.last_entry_id, segment.record_count, segment.start_sequence_id)
        if found != known:
            raise CorruptionError(
                f"stream {stream}: the archive of segment {segment.lssn} is of another segment: "
                f"last entry, records and start are {found}, those in the metadata are {known}"
            )
        return manifest
