"""Follows the assignments of a metadata store: prepares and releases streams (rule PRX-42).

When a stream is assigned to another proxy, its owner releases it at once and redirects its clients
there. The new owner sees the same change and waits for the end of the old claim, so that it takes
the stream over in the moment in which it is released, whether or not a client has arrived yet.
Assignments are hints: a proxy with an outdated table redirects clients once more.
"""

import asyncio
from collections.abc import Mapping

from ...core.protocol.errors import ClosedError, RhumblineError
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import Watch
from ...core.runtime.primitives.wakeup import Wakeup
from ...core.runtime.tasks import Tasks
from ..proxy_stores import ProxyStore
from ..routing import stream_key
from ..write.write_proxy import WriteProxy
from .assignment_store import BalanceNodes

_LOG = EventLog(__name__)

_RETRY_S = 1.0
_REFRESH_S = 60.0
"""The table is read again after this time even without a hint."""

_PREPARED_MAX = 4
"""Streams that are prepared at the same time."""

_PREPARATIONS_MAX = 64
"""Streams that are prepared or wait for it; others are taken when a client asks for them."""


class AssignmentFollower:
    """Keeps the routing of one store up to date, and hands streams over."""

    def __init__(self, store: ProxyStore, writes: WriteProxy) -> None:
        self._store = store
        self._writes = writes
        member = store.membership.own_member
        self._address, self._region = member.address, member.region
        self._nodes = BalanceNodes(store.metadata, self._region)
        self._wakeup = Wakeup()
        self._watch: Watch | None = None
        self._assigned: dict[str, Mapping[str, str]] | None = None
        self._tasks = Tasks()
        self._preparing = asyncio.Semaphore(_PREPARED_MAX)
        self._misplaced: dict[str, tuple[str, str]] = {}
        """(namespace, stream) of the streams to release, by key."""
        self._is_handing_over = False
        self._log_limit = LogLimit()

    async def run(self) -> None:
        """Follow the assignments for ever."""
        self._watch = self._nodes.watch_assignments(self._wakeup.wake)
        try:
            while True:
                try:
                    await self._follow()
                except ClosedError:
                    return
                except RhumblineError as error:
                    self._log(error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                await self._wakeup.wait(_REFRESH_S)
        finally:
            self._watch.close()
            await self._tasks.aclose()

    def _log(self, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            _LOG.warning(
                "assignments not read",
                proxy=self._address,
                error=error,
                dropped=dropped or None,
            )

    async def _follow(self) -> None:
        known, self._assigned = self._assigned, await self._nodes.assigned()
        self._store.assign(self._assigned)
        if known is None:
            return  # the owners check by themselves whether a proxy that has joined is preferred
        before, after = known.get(self._region, {}), self._assigned.get(self._region, {})
        changed = {key: to for key, to in after.items() if before.get(key) != to}
        for key, address in changed.items():
            if address == self._address and len(self._tasks) < _PREPARATIONS_MAX:
                self._tasks.spawn(self._prepare(key), f"prepare {key}")
        served = {
            stream_key(one.namespace, one.name): (one.namespace, one.name)
            for one in self._writes.served_streams()
            if one.store is self._store
        }
        self._misplaced.update(
            {
                key: served[key]
                for key, address in changed.items()
                if address != self._address and key in served
            }
        )
        if self._misplaced and not self._is_handing_over:
            self._is_handing_over = True
            self._tasks.spawn(self._hand_over(), "hand assigned streams over")

    async def _hand_over(self) -> None:
        """Release the streams one by one, so that each pause is short."""
        try:
            while self._misplaced:
                await self._writes.release_misplaced(
                    *self._misplaced.pop(next(iter(self._misplaced)))
                )
        finally:
            self._is_handing_over = False

    async def _prepare(self, key: str) -> None:
        """Wait for the stream if another proxy owns it; without an owner nobody needs it now."""
        namespace, _, stream = key.partition("/")
        async with self._preparing:
            try:
                claim = await self._store.claims.owner(namespace, stream)
            except RhumblineError:
                return  # the stream is taken over when a client asks for it
            if claim is not None and claim.address != self._address:
                await self._writes.prepare(namespace, stream, claim.address)
