"""Writers of counters in a metadata store, which count what became of each write."""

import time

from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore

KEYS = 6


class Adders:
    """Writers of counters, which count acknowledged writes and writes with unknown outcome."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.acknowledged = [0] * KEYS
        self.unsure = [0] * KEYS
        self.refused = 0
        self.longest_pause_s = 0.0
        self.is_stopped = False

    async def prepare(self) -> None:
        for key in range(KEYS):
            await self._store.create(f"/counters/{key}", b"0")

    async def run(self, key: int) -> None:
        last = time.monotonic()
        while not self.is_stopped:
            try:
                value = await self._store.get(f"/counters/{key}")
            except MetadataUnavailableError:
                self.refused += 1
                continue
            try:
                await self._store.put(
                    f"/counters/{key}", b"%d" % (int(value.data) + 1), expect=value.version
                )
            except IndeterminateError:
                self.unsure[key] += 1
                continue
            except (MetadataUnavailableError, BadVersionError):
                self.refused += 1
                continue
            self.acknowledged[key] += 1
            now = time.monotonic()
            self.longest_pause_s = max(self.longest_pause_s, now - last)
            last = now

    async def check(self, store: MetadataStore) -> None:
        """Check that no acknowledged write was lost and no write was applied twice."""
        for key in range(KEYS):
            found = int((await store.get(f"/counters/{key}")).data)
            assert self.acknowledged[key] <= found <= self.acknowledged[key] + self.unsure[key]
