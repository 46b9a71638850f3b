"""The quotas that a proxy enforces: it follows their record, and divides them (rule SEC-24)."""

import asyncio
from collections import Counter
from typing import Any

from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.protocol.errors import (
    ClosedError,
    LimitExceededError,
    QuotaExceededError,
    RhumblineError,
)
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.primitives.wakeup import Wakeup
from ...core.runtime.tasks import Tasks
from ...security.audit import NO_AUDIT, AuditSink
from ...security.quota_buckets import QuotaBuckets
from ...security.quotas import SubjectKind
from ..membership import READ, WRITE
from ..proxy_stores import ProxyStores
from .caller_quota import CALLER, CallerQuota
from .fair_shares import FairShares
from .quota_store import QuotaStore

_LOG = EventLog(__name__)

_RETRY_S = 1.0
_REFRESH_S = 30.0
"""The record is read again after this time even without a hint."""
_CALL_RETRY_MS = 1_000


class ProxyQuotas:
    """The quotas of one proxy, followed from ``start`` to ``aclose``.

    While the metadata store is out of reach, the last known quotas apply.
    """

    def __init__(self, stores: ProxyStores, shared_bytes_max: int) -> None:
        self.buckets = QuotaBuckets()
        self.audit: AuditSink = NO_AUDIT
        """Receives the refusals; the gRPC server sets it."""
        self._stores = stores
        self._store = QuotaStore(stores.first.metadata)
        self._shares = FairShares(shared_bytes_max)
        self._calls: Counter[str] = Counter()
        self._wakeup = Wakeup()
        self._tasks = Tasks()
        self._log_limit = LogLimit()
        stores.first.membership.on_members.append(self._wakeup.wake)

    def start(self) -> None:
        """Begin to follow the quotas."""
        self._tasks.spawn(self._follow(), "follow quotas")

    async def aclose(self) -> None:
        """Stop. Safe to repeat."""
        await self._tasks.aclose()

    def begin_call(self) -> CallerQuota:
        """Count an append or read call of the current caller until ``end_call``.

        Returns its quotas. Raises QuotaExceededError if the principal has too many calls.
        """
        name = str(CALLER.get())
        quota = self.buckets.table.find(SubjectKind.PRINCIPAL, name)
        if quota is not None and quota.calls is not None and self._calls[name] >= quota.calls:
            self.buckets.refused(name, "")
            raise QuotaExceededError(
                f"principal:{name} exceeds its quota calls: {quota.calls} are open", _CALL_RETRY_MS
            )
        self._calls[name] += 1
        return CallerQuota(name, self.buckets, self._shares, lambda: self.audit)

    def end_call(self) -> None:
        """Stop counting a call of the current caller."""
        name = str(CALLER.get())
        self._calls[name] -= 1
        if not self._calls[name]:
            del self._calls[name]

    async def check_new_streams(self, namespace: Namespace, name: str, count: int = 1) -> None:
        """Raise LimitExceededError if the namespace has no room for ``count`` more streams.

        Streams that are created at the same time through several proxies may exceed the quota by
        their number.
        """
        quota = self.buckets.table.find(SubjectKind.NAMESPACE, name)
        if quota is None or quota.streams is None:
            return
        allowed, found, after = quota.streams - count, 0, None
        while found <= allowed:
            names = await namespace.streams(after=after, limit=LIST_LIMIT)
            found += len(names)
            if len(names) < LIST_LIMIT:
                break
            after = names[-1]
        if found > allowed:
            self.buckets.refused(str(CALLER.get()), name)
            raise LimitExceededError(f"namespace:{name} exceeds its quota streams: {quota.streams}")

    def statistics(self) -> dict[str, Any]:
        """Return the number of quotas, and the usage by principal and namespace."""
        return {**self.buckets.statistics(), "calls_paused": self._shares.waited_count}

    async def _follow(self) -> None:
        watch = self._store.watch(self._wakeup.wake)
        try:
            while True:
                pause_s = _REFRESH_S
                try:
                    await self._refresh()
                except ClosedError:
                    return
                except RhumblineError as error:
                    self._log(error)
                    pause_s = _RETRY_S
                await self._wakeup.wait(pause_s)
        finally:
            watch.close()

    async def _refresh(self) -> None:
        table = await self._store.read()
        members = self._stores.first.membership.members
        self.buckets.replace(table, writers=len(members(WRITE)), readers=len(members(READ)))

    def _log(self, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            _LOG.warning("quotas not read", error=error, dropped=dropped or None)
