"""A cold store in memory that can be made unavailable, and the comparison of archives."""

import io

from ...coldstore.archive.catalog import list_manifests
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import NoSuchObjectError, UnavailableError
from ...core.runtime.cold_store import ColdStore, ObjectStat
from ..checker.history import RecordedRead


class MemoryColdStore:
    """A ``ColdStore`` in memory; every call fails while ``is_unavailable`` is set."""

    uri = "memory:"

    def __init__(self) -> None:
        self.is_unavailable = False
        self._objects: dict[str, bytes] = {}

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        self._check_available()
        return self._objects.setdefault(key, data) is data

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        self._check_available()
        if key not in self._objects:
            raise NoSuchObjectError(f"no object {key}")
        return self._objects[key][offset : None if length is None else offset + length]

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore."""
        return ObjectStat(len(await self.get(key)), None)

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore."""
        self._check_available()
        return sorted(key for key in self._objects if key.startswith(prefix))

    async def delete(self, key: str) -> None:
        """See ColdStore."""
        self._check_available()
        self._objects.pop(key, None)

    async def close(self) -> None:
        """See ColdStore."""

    def _check_available(self) -> None:
        if self.is_unavailable:
            raise UnavailableError("the cold store is unavailable")


async def compare_archive(
    cold: ColdStore, namespace: str, read: RecordedRead
) -> tuple[int, list[str]]:
    """Compare an archive with the records of a complete reader.

    Returns the number of archived segments and the differences. Records below the reader's start
    are not compared, because the application has truncated them.
    """
    import pyarrow.parquet as pq

    hot: dict[int, dict[Dlsn, bytes]] = {}
    for record in read.records:
        hot.setdefault(record.dlsn.lssn, {})[record.dlsn] = record.payload
    manifests = await list_manifests(cold, namespace)
    differences = []
    for manifest in manifests:
        found: dict[Dlsn, bytes] = {}
        for part in manifest.parts:
            table = pq.read_table(io.BytesIO(await cold.get(manifest.part_key(part))))
            columns = [table.column(name).to_pylist() for name in ("entry_id", "slot", "payload")]
            for entry_id, slot, payload in zip(*columns, strict=True):
                found[Dlsn(manifest.lssn, entry_id, slot)] = payload
        start = read.start or Dlsn(1, 0, 0)
        wanted = hot.get(manifest.lssn, {})
        kept = {dlsn: payload for dlsn, payload in found.items() if dlsn >= start}
        if kept != wanted:
            missing = sorted(set(wanted) - set(kept))[:3]
            extra = sorted(set(kept) - set(wanted))[:3]
            differences.append(f"segment {manifest.lssn}: missing {missing}, unexpected {extra}")
    return len(manifests), differences
