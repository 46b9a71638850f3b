"""Measures the lag of all subscriptions, in the elected process."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.log.namespace import Namespace
from ...core.log.stream_series import BY_NAMESPACE, BY_NOTHING, BY_STREAM, OTHER
from ...core.log.topics.topics import list_topics
from ...core.protocol.errors import RhumblineError
from ...core.runtime.clock import Clock
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import MetadataStore
from ...core.runtime.tasks import run_all
from ..all_streams import STREAMS_AT_ONCE, all_namespaces, pages_of_streams
from .lag_bytes import measure_bytes
from .stream_lag import UNKNOWN_LAG, Lag, count_records, lag_of, read_positions

_LOG = EventLog(__name__)

SUBSCRIPTIONS_MAX = 100_000
"""Maximum number of subscriptions that one pass examines."""

_NamedLag = tuple[str, Lag, int | None]
"""The name of a subscription, its lag, and the lag in bytes if it is known."""


class SeriesRule(NamedTuple):
    """Which subscriptions have metrics of their own: none, those of a namespace together, or each.

    ``series_max`` bounds the number of series; the rest shares one. See ``telemetry.series_by``.
    """

    by: str = BY_NOTHING
    series_max: int = 0

    def key(self, namespace: str, stream: str, name: str) -> tuple[str, str, str]:
        """Return the labels of a subscription."""
        return (namespace, "", "") if self.by == BY_NAMESPACE else (namespace, stream, name)


@dataclass(slots=True)
class LagSummary:
    """The lag of one or more subscriptions: the largest values that are known."""

    examined: int = 0
    unknown: int = 0
    """Those whose lag is not known, because bookies or the metadata store do not respond."""
    lag_records: int = 0
    lag_bytes: int = 0
    behind_ms: int = 0

    def add(self, lag: Lag, size: int | None, now_ms: int) -> None:
        """Add a subscription; ``size`` is its lag in bytes."""
        behind_ms = lag.behind_ms(now_ms)
        self.examined += 1
        self.unknown += lag.records is None and behind_ms is None
        self.lag_records = max(self.lag_records, lag.records or 0)
        self.lag_bytes = max(self.lag_bytes, size or 0)
        self.behind_ms = max(self.behind_ms, behind_ms or 0)

    def add_partition(self, lag: Lag, size: int | None, now_ms: int) -> None:
        """Add a partition of a group, whose lag is the sum over its partitions."""
        sums = self.lag_records + (lag.records or 0), self.lag_bytes + (size or 0)
        self.add(lag, size, now_ms)
        self.lag_records, self.lag_bytes = sums


class SubscriptionLags:
    """The lags of all subscriptions of one metadata store, as of the last pass."""

    def __init__(
        self,
        store: MetadataStore,
        open_namespace: Callable[[str], Namespace],
        clock: Clock,
        *,
        interval_ms: int,
        series: SeriesRule | None = None,
    ) -> None:
        self._store = store
        self._open_namespace = open_namespace
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._series = series or SeriesRule()
        self._log_limit = LogLimit()
        self._all = LagSummary()
        self._by_key: dict[tuple[str, str, str], LagSummary] = {}
        self._by_group: dict[tuple[str, str, str], LagSummary] = {}

    def statistics(self) -> dict[str, Any]:
        """Return the largest lags, and those of single subscriptions as far as there are series."""
        found = self._all
        return {
            "examined": found.examined,
            "unknown": found.unknown,
            "lag_records": found.lag_records,
            "lag_bytes": found.lag_bytes,
            "behind_ms": found.behind_ms,
            "by_name": _tree(self._by_key),
            "by_group": _tree(self._by_group),
        }

    async def run(self, is_elected: Callable[[], bool]) -> None:
        """Run passes until cancelled, while the process is elected. Errors are logged."""
        while True:
            await asyncio.sleep(self._interval_s)
            if not is_elected():
                self._all, self._by_key, self._by_group = LagSummary(), {}, {}
                continue
            try:
                await self.run_once()
            except RhumblineError as error:
                dropped = self._log_limit.admit(asyncio.get_running_loop().time())
                if dropped is not None:
                    _LOG.warning("lag measurement failed", error=error, dropped=dropped or None)

    async def run_once(self) -> None:
        """Measure all subscriptions once. Raises MetadataError."""
        found, by_key = LagSummary(), dict[tuple[str, str, str], LagSummary]()
        by_group: dict[tuple[str, str, str], LagSummary] = {}
        async for namespace in all_namespaces(self._store, self._open_namespace):
            topics = await self._topics_of(namespace)
            async with aclosing(self._lags_by_stream(namespace)) as streams:
                async for stream, lags in streams:
                    for name, lag, size in lags:
                        now_ms = self._clock.wall_ms()
                        found.add(lag, size, now_ms)
                        if self._series.by != BY_NOTHING:
                            key = self._series.key(namespace.name, stream, name)
                            if key not in by_key and len(by_key) >= self._series.series_max:
                                key = self._series.key(OTHER, OTHER, OTHER)
                            by_key.setdefault(key, LagSummary()).add(lag, size, now_ms)
                        topic, _, partition = stream.rpartition(".")
                        if topic in topics and partition.isdigit():
                            key = (namespace.name, topic, name)
                            if key not in by_group and len(by_group) >= self._series.series_max:
                                key = (OTHER, OTHER, OTHER)
                            by_group.setdefault(key, LagSummary()).add_partition(lag, size, now_ms)
                    if found.examined >= SUBSCRIPTIONS_MAX:
                        break
        self._all, self._by_key, self._by_group = found, by_key, by_group

    async def _topics_of(self, namespace: Namespace) -> set[str]:
        """Return the topics whose groups have series."""
        found: set[str] = set()
        after: str | None = None
        while self._series.by == BY_STREAM:
            page = await list_topics(namespace.store, namespace, after=after)
            if not page:
                break
            found.update(page)
            after = page[-1]
        return found

    async def _lags_by_stream(
        self, namespace: Namespace
    ) -> AsyncGenerator[tuple[str, list[_NamedLag]]]:
        """Yield the lags of each stream, in the order of their names."""
        async with aclosing(pages_of_streams(namespace)) as pages:
            async for page in pages:
                for first in range(0, len(page), STREAMS_AT_ONCE):
                    some = page[first : first + STREAMS_AT_ONCE]
                    measuring = [self._lags_of(namespace, stream) for stream in some]
                    for stream, lags in zip(some, await run_all(measuring, "lags"), strict=True):
                        yield stream, lags

    async def _lags_of(self, namespace: Namespace, stream: str) -> list[_NamedLag]:
        """Return the lag of each subscription of a stream, in records and in bytes."""
        positions = await read_positions(namespace, stream)
        if not positions:
            return []
        count = await count_records(namespace, stream)
        if count is None:
            return [(name, UNKNOWN_LAG, None) for name, _ in positions]
        lags = [await lag_of(namespace, stream, position, count) for _, position in positions]
        sizes = await measure_bytes(namespace, stream, lags, count)
        names = [name for name, _ in positions]
        return list(zip(names, lags, sizes, strict=True))


def _tree(lags: Mapping[tuple[str, str, str], LagSummary]) -> dict[str, Any]:
    """Return the lags as nested mappings of their three labels."""
    found: dict[str, Any] = {}
    for (first, second, third), lag in sorted(lags.items()):
        values = {
            "lag_records": lag.lag_records,
            "lag_bytes": lag.lag_bytes,
            "behind_ms": lag.behind_ms,
        }
        found.setdefault(first, {}).setdefault(second, {})[third] = values
    return found
