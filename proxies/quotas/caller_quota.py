"""The quotas of one caller of a proxy, for the duration of its call."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar

from ...core.protocol.errors import QuotaExceededError
from ...security.audit import AuditEvent, AuditResult, AuditSink
from ...security.principal import ANONYMOUS, Principal
from ...security.quota_buckets import Excess, QuotaBuckets
from ...security.quotas import SubjectKind
from ..write.append_item import AppendItem
from .fair_shares import FairShares

PAUSE_S_MAX = 0.2
"""Longest time for which a call is not read after a refusal; clients miss a proxy that is silent
for longer."""

CALLER: ContextVar[Principal] = ContextVar("caller", default=ANONYMOUS)
"""The principal that made the current call; the gRPC server sets it."""


class CallerQuota:
    """The limits of one principal at this proxy, during one of its calls."""

    def __init__(
        self,
        principal: str,
        buckets: QuotaBuckets,
        shares: FairShares,
        audit: Callable[[], AuditSink],
    ) -> None:
        self._principal = principal
        self._buckets = buckets
        self._shares = shares
        self._audit = audit
        self._loop = asyncio.get_running_loop()
        self._paused_until = 0.0

    def refusal_of(self, item: AppendItem) -> QuotaExceededError | None:
        """Count a record set as passed, or return the error that refuses it."""
        excess = self._buckets.append(
            self._principal,
            item.namespace,
            item.stream,
            item.count,
            len(item.record_set),
            self._loop.time(),
        )
        if excess is None:
            return None
        if excess.subject.kind is SubjectKind.PRINCIPAL:
            self._paused_until = self._loop.time() + min(excess.wait_ms / 1000, PAUSE_S_MAX)
        error = excess_error(excess)
        resource = f"stream:{item.namespace}/{item.stream}"
        self._audit().record(
            AuditEvent("Append", AuditResult.REFUSED, self._principal, "", resource, error.code)
        )
        return error

    def begin(self, size: int) -> None:
        """Count a record set in flight."""
        self._shares.add(self._principal, size)

    def end(self, size: int) -> None:
        """Stop counting a record set in flight."""
        self._shares.remove(self._principal, size)

    async def room(self) -> None:
        """Wait until the principal may send more (rules SEC-26, SEC-27)."""
        pause_s = self._paused_until - self._loop.time()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        await self._shares.room(self._principal)

    def read_wait_s(self, namespace: str, stream: str, size: int) -> float:
        """Count bytes as sent to a reader; return the seconds until it may get more."""
        return self._buckets.read(self._principal, namespace, stream, size, self._loop.time())


def excess_error(excess: Excess) -> QuotaExceededError:
    """Return the error of a refusal."""
    return QuotaExceededError(f"{excess.subject} exceeds its quota {excess.limit}", excess.wait_ms)
