"""The quotas of one caller of a proxy, for the duration of its call."""

import asyncio
from collections.abc import Callable

from ...core.protocol.errors import LimitExceededError, QuotaExceededError, RhumblineError
from ...security.audit import AuditEvent, AuditResult, AuditSink
from ...security.caller import Caller
from ...security.quota_buckets import Excess, QuotaBuckets
from ...security.quotas import SubjectKind
from ..write.append_item import AppendItem
from .fair_shares import FairShares
from .full_namespaces import FullNamespaces

PAUSE_S_MAX = 0.2
"""Longest time for which a call is not read after a refusal: clients treat a proxy that is silent
for longer as lost."""


class CallerQuota:
    """The limits of one principal at this proxy, during one of its calls."""

    def __init__(
        self,
        caller: Caller,
        buckets: QuotaBuckets,
        shares: FairShares,
        full: FullNamespaces,
        audit: Callable[[], AuditSink],
    ) -> None:
        self._caller = caller
        self._principal = str(caller.principal)
        self._buckets = buckets
        self._shares = shares
        self._full = full
        self._audit = audit
        self._loop = asyncio.get_running_loop()
        self._paused_until = 0.0

    def refusal_of(self, item: AppendItem) -> QuotaExceededError | LimitExceededError | None:
        """Count a record set as passed, or return the error that refuses it."""
        error: QuotaExceededError | LimitExceededError | None = self._full.refusal(item.namespace)
        if error is not None:
            self._buckets.refused(self._principal, item.namespace)
        else:
            error = self._excess_of(item)
        if error is not None:
            self._record(item, error)
        return error

    def _excess_of(self, item: AppendItem) -> QuotaExceededError | None:
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
        return excess_error(excess)

    def _record(self, item: AppendItem, error: RhumblineError) -> None:
        self._audit().record(
            AuditEvent(
                "Append",
                AuditResult.REFUSED,
                self._principal,
                self._caller.peer,
                f"stream:{item.namespace}/{item.stream}",
                error.code,
                self._caller.request_id,
            )
        )

    def begin(self, size: int) -> None:
        """Count a record set in flight."""
        self._shares.add(self._principal, size)

    def end(self, size: int) -> None:
        """Stop counting a record set in flight."""
        self._shares.remove(self._principal, size)

    @property
    def is_over_share(self) -> bool:
        """True if the principal has more than its share in flight, so that ``share`` waits."""
        return self._shares.is_over(self._principal)

    async def share(self) -> None:
        """Wait until the principal has no more than its share in flight (rule SEC-27)."""
        await self._shares.room(self._principal)

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
