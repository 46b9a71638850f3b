"""A cold store that counts the bytes that are read from it."""

from ...core.runtime.cold_store import ColdStore, ObjectStat


class MeasuredColdStore:
    """See ColdStore. Passes every call to another store."""

    def __init__(self, store: ColdStore) -> None:
        self._store = store
        self._read_bytes = 0

    @property
    def uri(self) -> str:
        """See ColdStore."""
        return self._store.uri

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """See ColdStore."""
        return await self._store.put_if_absent(key, data)

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See ColdStore."""
        data = await self._store.get(key, offset, length)
        self._read_bytes += len(data)
        return data

    async def stat(self, key: str) -> ObjectStat:
        """See ColdStore."""
        return await self._store.stat(key)

    async def list(self, prefix: str = "") -> list[str]:
        """See ColdStore."""
        return await self._store.list(prefix)

    async def delete(self, key: str) -> None:
        """See ColdStore."""
        await self._store.delete(key)

    async def close(self) -> None:
        """See ColdStore."""
        await self._store.close()

    def statistics(self) -> dict[str, int]:
        """Return counters for metrics."""
        return {"read_bytes": self._read_bytes}
