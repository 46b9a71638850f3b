"""Runs retention for every stream of every namespace, in the elected process (rule RPR-20).

Truncation, purging and the deletion of hot copies and archives are safe in any number of processes.
The election only keeps them from doing the same work.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ...core.log.namespace import Namespace
from ...core.protocol.errors import (
    MetadataError,
    NamespaceMovingError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    RhumblineError,
)
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.tasks import for_each
from ..all_streams import STREAMS_AT_ONCE, all_namespaces, pages_of_streams
from .config import RepairConfig

_LOG = EventLog(__name__)


@dataclass(slots=True)
class RetentionCounts:
    """Counters for metrics, since the start unless noted otherwise."""

    passes: int = 0
    streams: int = 0
    """Streams of the last pass."""
    purged: int = 0
    """Segments that were deleted permanently."""
    retired: int = 0
    """Segments that lost their hot copy."""
    expired: int = 0
    """Archives that were deleted."""
    failures: int = 0
    """Streams for which a pass failed."""
    overdue_ms: int = 0
    """Time for which the oldest overdue data was overdue at the end of the last pass."""
    pass_ms: int = 0
    """Duration of the last pass."""


class RetentionRunner:
    """The retention of all namespaces, run by one process."""

    def __init__(
        self,
        store: MetadataStore,
        open_namespace: Callable[[str], Namespace],
        config: RepairConfig,
    ) -> None:
        self.counts = RetentionCounts()
        self._store = store
        self._open_namespace = open_namespace
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._log_limit = LogLimit()
        self._expiry_due = 0.0

    def statistics(self) -> dict[str, Any]:
        """Return counters for metrics."""
        return asdict(self.counts)

    async def run(self, is_elected: Callable[[], bool]) -> None:
        """Run passes until cancelled, while the process is elected. Errors are logged."""
        while True:
            if is_elected():
                try:
                    await self.run_once(is_elected)
                except RhumblineError as error:
                    self._log_failure("", "", error)
            await asyncio.sleep(self._config.retention_interval_ms / 1000)

    async def run_once(self, is_elected: Callable[[], bool] = lambda: True) -> None:
        """Run one pass over all streams, and stop it when the role is lost.

        A stream that fails does not stop the others. Raises MetadataError.
        """
        begun = self._loop.time()
        expires_archives = begun >= self._expiry_due
        stream_count, overdue_ms, is_over = 0, 0, False

        async def maintain(namespace: Namespace, stream: str) -> None:
            nonlocal stream_count, overdue_ms, is_over
            is_over = is_over or not is_elected()
            if not is_over:
                stream_count += 1
                age_ms = await self._maintain(namespace, stream, expires_archives)
                overdue_ms = max(overdue_ms, age_ms)

        async with aclosing(all_namespaces(self._store, self._open_namespace)) as namespaces:
            async for namespace in namespaces:
                async with aclosing(pages_of_streams(namespace)) as pages:
                    async for page in pages:
                        await for_each(page, partial(maintain, namespace), STREAMS_AT_ONCE)
                        if is_over:
                            return
        if expires_archives:
            self._expiry_due = begun + self._config.archive_expiry_interval_ms / 1000
        counts = self.counts
        counts.passes += 1
        counts.streams, counts.overdue_ms = stream_count, overdue_ms
        counts.pass_ms = round((self._loop.time() - begun) * 1000)

    async def _maintain(self, namespace: Namespace, stream: str, expires_archives: bool) -> int:
        """Maintain a stream; return for how long its oldest data is overdue, in ms."""
        counts = self.counts
        try:
            done = await namespace.maintain(stream, expires_archives=expires_archives)
            counts.purged += len(done.purged)
            counts.retired += len(done.retired)
            counts.expired += len(done.expired)
            overdue = await namespace.find_overdue(stream) if done.is_limited else None
        except (NoSuchStreamError, NoSuchNamespaceError, NamespaceMovingError):
            return 0  # deleted meanwhile, or in another store soon
        except MetadataError:
            raise
        except RhumblineError as error:
            counts.failures += 1
            self._log_failure(namespace.name, stream, error)
            return 0
        return overdue.overdue_ms if overdue else 0

    def _log_failure(self, namespace: str, stream: str, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(self._loop.time())
        if dropped is not None:
            _LOG.warning(
                "retention failed",
                namespace=namespace or None,
                stream=stream or None,
                error=error,
                dropped=dropped or None,
            )
