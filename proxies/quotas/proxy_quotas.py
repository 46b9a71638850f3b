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
from ...regions.usage.stored_bytes import read_stored_bytes
from ...security.audit import NO_AUDIT, AuditSink
from ...security.caller import CURRENT_CALLER
from ...security.quota_buckets import QuotaBuckets
from ...security.quotas import Quota, SubjectKind
from ..membership import READ, WRITE
from ..proxy_stores import ProxyStores
from .caller_quota import CallerQuota
from .fair_shares import FairShares
from .full_namespaces import FullNamespaces
from .quota_store import QuotaStore

_LOG = EventLog(__name__)

_RETRY_S = 1.0
_REFRESH_S = 30.0
"""The record is read again after this time even without a hint."""
_CALL_RETRY_MS = 1_000
_NO_QUOTA = Quota()
_NO_CONNECTIONS: Counter[str] = Counter()


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
        self._connections: dict[str, Counter[str]] = {}
        self._full = FullNamespaces()
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

        Returns its quotas. Raises QuotaExceededError if the principal has too many calls, or
        calls from too many connections.
        """
        caller = CURRENT_CALLER.get()
        name = str(caller.principal)
        connections = self._connections.get(name, _NO_CONNECTIONS)
        is_new = caller.peer not in connections
        quota = self.buckets.table.find(SubjectKind.PRINCIPAL, name) or _NO_QUOTA
        for limit, allowed, count in (
            ("calls", quota.calls, self._calls[name]),
            ("connections", quota.connections, len(connections) if is_new else -1),
        ):
            if allowed is not None and count >= allowed:
                self.buckets.refused(name, "")
                raise QuotaExceededError(
                    f"principal:{name} exceeds its quota {limit}: {count} are open", _CALL_RETRY_MS
                )
        self._calls[name] += 1
        self._connections.setdefault(name, Counter())[caller.peer] += 1
        return CallerQuota(caller, self.buckets, self._shares, self._full, lambda: self.audit)

    def end_call(self) -> None:
        """Stop counting a call of the current caller."""
        caller = CURRENT_CALLER.get()
        name = str(caller.principal)
        connections = self._connections[name]
        for counts, key in ((self._calls, name), (connections, caller.peer)):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
        if not connections:
            del self._connections[name]

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
            self.buckets.refused(str(CURRENT_CALLER.get().principal), name)
            raise LimitExceededError(f"namespace:{name} exceeds its quota streams: {quota.streams}")

    def statistics(self) -> dict[str, Any]:
        """Return the number of quotas, and the usage by principal and namespace."""
        return {
            **self.buckets.statistics(),
            "calls_paused": self._shares.waited_count,
            "full_namespaces": len(self._full),
        }

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
        has_limits = any(quota.stored_bytes is not None for _, quota in table.items())
        self._full.replace(table, await self._stored_bytes() if has_limits else {})

    async def _stored_bytes(self) -> Counter[str]:
        """Return the bytes that namespaces store, in all stores of this proxy."""
        found: Counter[str] = Counter()
        for store in self._stores.all:
            found.update(await read_stored_bytes(store.metadata))
        return found

    def _log(self, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            _LOG.warning("quotas not read", error=error, dropped=dropped or None)
