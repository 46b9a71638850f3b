"""The metadata store as a program of a version reads and writes it."""

from collections.abc import Sequence
from dataclasses import replace

from ....core.runtime.metadata_store import (
    Create,
    Operation,
    Put,
    Session,
    Value,
    Version,
)
from ...checker.upgrades.upgrade_use import UnreadableValue, UpgradeUse
from ..world.metadata import MetadataSite, SimMetadataStore, SimSession
from ..world.process import SimProcess
from .program import SimProgram, in_next_format, in_todays_format, is_next_format


class VersionedProcess:
    """A process with its version."""

    def __init__(self, program: SimProgram, process: str) -> None:
        self.program = program
        self.process = process
        self.writes_new_format = False
        """True once the process has read that the cluster is at the level that permits it."""


class VersionedStore(SimMetadataStore):
    """The handle of one process, with the formats of its program."""

    def __init__(
        self,
        site: MetadataSite,
        process: SimProcess,
        timeout_ms: int,
        running: VersionedProcess,
        use: UpgradeUse,
        owners: dict[str, VersionedProcess],
    ) -> None:
        super().__init__(site, process, timeout_ms)
        self._running = running
        self._use = use
        self._owners = owners

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """See SimMetadataStore."""
        return self._read(path, await super().get(path, stale_ok=stale_ok))

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """See SimMetadataStore."""
        values = await super().get_all(paths, stale_ok=stale_ok)
        return [
            None if value is None else self._read(path, value)
            for path, value in zip(paths, values, strict=True)
        ]

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """See SimMetadataStore."""
        data = self._written(path, data)
        return await super().create(path, data, ephemeral=ephemeral, sequential=sequential)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """See SimMetadataStore."""
        return await super().put(path, self._written(path, data), expect=expect)

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """See SimMetadataStore."""
        return await super().txn(
            [
                replace(step, data=self._written(step.path, step.data))
                if isinstance(step, Create | Put)
                else step
                for step in operations
            ]
        )

    async def session(self, ttl_ms: int) -> SimSession:
        """See SimMetadataStore. The process is recorded as the owner of the session."""
        session = await super().session(ttl_ms)
        self._owners[session.inner.owner] = self._running
        return session

    def _knows_format(self) -> bool:
        return self._running.program.levels.newest >= self._use.level

    def _read(self, path: str, value: Value) -> Value:
        if not is_next_format(value.data):
            return value
        if self._knows_format():
            return value._replace(data=in_todays_format(value.data))
        now_ms = self.site.network.loop.now * 1000
        self._use.unreadable.append(UnreadableValue(self._running.process, path, now_ms))
        return value

    def _written(self, path: str, data: bytes) -> bytes:
        return in_next_format(path, data) if self._running.writes_new_format else data
