"""Decides what may pass under quotas, and counts what passed. Pure: callers pass the time.

The rate limits of a principal or a namespace are divided equally among the proxies of the role that
carries the load. A stream has one owner, so its append limits are not divided; its read limit is
(rule SEC-24). Every limit has a burst of one second.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ..core.runtime.primitives.rate_limiter import RateLimiter
from .quotas import NO_QUOTAS, Quota, QuotaTable, Subject, SubjectKind

BUCKETS_MAX = 10_000
"""Maximum number of subjects with buckets; the least recently used one is forgotten."""
USAGES_MAX = 1_000
"""Maximum number of principals, and of namespaces, whose usage is counted separately."""
OTHER = "other"
WAIT_MS_MAX = 10_000
"""Longest pause that a client is asked for."""


class Excess(NamedTuple):
    """A limit that would be exceeded, and the time until it would not be."""

    subject: Subject
    limit: str
    wait_ms: int


class TenantUsage:
    """The work of a principal or a namespace at this proxy, since it started."""

    __slots__ = ("append_bytes", "append_records", "read_bytes", "refused")

    def __init__(self) -> None:
        self.append_bytes = 0
        self.append_records = 0
        self.read_bytes = 0
        self.refused = 0

    def counts(self) -> dict[str, int]:
        """Return the counters by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class _Buckets:
    """The token buckets of a subject, by limit; none for a subject without a quota."""

    __slots__ = ("append_bytes", "append_records", "is_limited", "read_bytes")

    def __init__(self, rates: dict[str, float | None]) -> None:
        self.is_limited = any(rate is not None for rate in rates.values())
        self.append_bytes, self.append_records, self.read_bytes = (
            RateLimiter(rate, burst=rate or 0.0) for rate in rates.values()
        )


class QuotaBuckets:
    """The buckets of one proxy. Without quotas it counts usage only."""

    def __init__(self) -> None:
        self._table = NO_QUOTAS
        self._writers = self._readers = 1
        self._buckets: OrderedDict[Subject, _Buckets] = OrderedDict()
        self._usage: dict[Subject, TenantUsage] = {}
        self._usage_counts: Counter[SubjectKind] = Counter()

    @property
    def table(self) -> QuotaTable:
        """The quotas that apply."""
        return self._table

    def replace(self, table: QuotaTable, *, writers: int, readers: int) -> None:
        """Apply other quotas, or other numbers of proxies. Buckets are full after a change."""
        found = (table, max(1, writers), max(1, readers))
        if found != (self._table, self._writers, self._readers):
            self._table, self._writers, self._readers = found
            self._buckets.clear()

    def append(
        self, principal: str, namespace: str, stream: str, records: int, size: int, now: float
    ) -> Excess | None:
        """Count records as passed, or return the limit that forbids them for the longest time."""
        subjects = _subjects(principal, namespace, stream)
        worst: Excess | None = None
        if self._table:
            passing = []
            for subject in subjects:
                buckets = self._of(subject)
                if not buckets.is_limited:
                    continue
                passing.append(buckets)
                for limit, bucket, amount in (
                    ("append_bytes_per_second", buckets.append_bytes, size),
                    ("append_records_per_second", buckets.append_records, records),
                ):
                    wait_ms = _ms(bucket.wait_s(amount, now))
                    if wait_ms and (worst is None or wait_ms > worst.wait_ms):
                        worst = Excess(subject, limit, wait_ms)
            if worst is None:
                for buckets in passing:
                    buckets.append_bytes.take(size, now)
                    buckets.append_records.take(records, now)
        for usage in self._usages(subjects):
            if worst is not None:
                usage.refused += 1
            else:
                usage.append_bytes += size
                usage.append_records += records
        return worst

    def read(self, principal: str, namespace: str, stream: str, size: int, now: float) -> float:
        """Count bytes as sent to a reader; return the seconds to wait before it gets more."""
        subjects = _subjects(principal, namespace, stream)
        wait_s = 0.0
        if self._table:
            for subject in subjects:
                bucket = self._of(subject).read_bytes
                bucket.take(size, now)
                wait_s = max(wait_s, bucket.wait_s(1, now))
        for usage in self._usages(subjects):
            usage.read_bytes += size
        return min(wait_s, WAIT_MS_MAX / 1000)

    def refused(self, principal: str, namespace: str) -> None:
        """Count a refusal by a limit that is not a rate."""
        for usage in self._usages(_subjects(principal, namespace, "")):
            usage.refused += 1

    def statistics(self) -> dict[str, Any]:
        """Return the counters by principal and by namespace."""
        found: dict[str, dict[str, dict[str, int]]] = {"principals": {}, "namespaces": {}}
        for subject, usage in self._usage.items():
            found[f"{subject.kind}s"][subject.name] = usage.counts()
        return {"quotas": len(self._table.items()), **found}

    def _usages(self, subjects: tuple[Subject, Subject, Subject]) -> Iterator[TenantUsage]:
        for subject in subjects[:2]:
            usage = self._usage.get(subject)
            if usage is None:
                if self._usage_counts[subject.kind] >= USAGES_MAX:
                    subject = subject._replace(name=OTHER)
                else:
                    self._usage_counts[subject.kind] += 1
                usage = self._usage.setdefault(subject, TenantUsage())
            yield usage

    def _of(self, subject: Subject) -> _Buckets:
        buckets = self._buckets.get(subject)
        if buckets is not None:
            self._buckets.move_to_end(subject)
            return buckets
        quota = self._table.find(subject.kind, subject.name) or Quota()
        is_stream = subject.kind is SubjectKind.STREAM
        writers = 1 if is_stream else self._writers
        rates: dict[str, float | None] = {
            name: None if limit is None else limit / proxies
            for name, limit, proxies in (
                ("append_bytes", quota.append_bytes_per_second, writers),
                ("append_records", quota.append_records_per_second, writers),
                ("read_bytes", quota.read_bytes_per_second, self._readers),
            )
        }
        buckets = self._buckets[subject] = _Buckets(rates)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return buckets


@lru_cache(BUCKETS_MAX)
def _subjects(principal: str, namespace: str, stream: str) -> tuple[Subject, Subject, Subject]:
    return (
        Subject(SubjectKind.PRINCIPAL, principal),
        Subject(SubjectKind.NAMESPACE, namespace),
        Subject(SubjectKind.STREAM, f"{namespace}/{stream}"),
    )


def _ms(wait_s: float) -> int:
    return 0 if wait_s <= 0 else int(min(max(1.0, wait_s * 1000), WAIT_MS_MAX))
