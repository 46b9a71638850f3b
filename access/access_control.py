"""Follows the grants of the cluster and decides by them (rules SEC-5 to SEC-8).

Every decision of a process about its callers is made and reported here. The grants are read again
at an interval, and when the store says that they changed. A decision is based on grants that were
read at most ``stale_ms_max`` earlier; without such a read, only administrators are served.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..core.metadata.cluster_layout import ROOT, Paths
from ..core.protocol.errors import PermissionDeniedError, RhumblineError, UnavailableError
from ..core.runtime.event_log import EventLog
from ..core.runtime.metadata_store import MetadataStore, Watch
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.tasks import Tasks
from ..security.caller import AccessObserver, Caller
from ..security.grant_table import AccessDecision, GrantTable
from ..security.grants import Action, Resource
from ..security.principal import Principal
from ..security.settings import SecuritySettings
from .grant_store import read_grants

_LOG = EventLog(__name__)

_DECISIONS_MAX = 65_536
_EMPTY = GrantTable()

Actions = tuple[Action, ...]


class AccessControl:
    """The decisions of one process, from ``start`` to ``aclose``. For one event loop."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        refresh_ms: int,
        stale_ms_max: int,
        observer: AccessObserver | None = None,
        root: str = ROOT,
    ) -> None:
        """``observer`` is told of each refusal."""
        self.generation = 0
        """Rises when decisions may have changed."""
        self._store = store
        self._root = root
        self._refresh_s = refresh_ms / 1000
        self._stale_s = stale_ms_max / 1000
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._table = GrantTable()
        self._read_at: float | None = None
        self._decisions: dict[tuple[Principal, Actions, Resource], AccessDecision] = {}
        self._listeners: dict[Callable[[], None], None] = {}
        self._wakeup = Wakeup()
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks()
        self._is_failing = False
        self._refusals: Counter[str] = Counter()

    async def start(self) -> None:
        """Read the grants once, if that is possible now, and follow them."""
        self._watch = self._store.watch(Paths(self._root).grants, self._wakeup.wake)
        await self._refresh()
        self._tasks.spawn(self._follow(), "follow the grants")

    async def aclose(self) -> None:
        """Stop following the grants. Safe to repeat."""
        if self._watch is not None:
            self._watch.close()
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.aclose()

    # --- decisions ------------------------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """True if the grants were read recently enough to decide by them (rule SEC-7)."""
        return self._read_at is not None and self._loop.time() < self._read_at + self._stale_s

    def decide(self, principal: Principal, actions: Actions, resource: Resource) -> AccessDecision:
        """Return whether a principal may do one of ``actions`` to a resource.

        Raises UnavailableError if the grants are not current, except for administrators.
        """
        if not self.is_current:
            decision = _EMPTY.decide(principal, actions, resource)
            if not decision.is_allowed:
                raise UnavailableError(self._stale_reason())
            return decision
        key = (principal, actions, resource)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= _DECISIONS_MAX:
                self._decisions.clear()
            known = self._decisions[key] = self._table.decide(principal, actions, resource)
        return known

    def check(self, caller: Caller, actions: Actions, resource: Resource) -> None:
        """Raise PermissionDeniedError, with the reason, if the caller may do none of ``actions``.

        The observer is told of the refusal. Raises UnavailableError as ``decide``.
        """
        decision = self.decide(caller.principal, actions, resource)
        if not decision.is_allowed:
            self._refusals[actions[0].value] += 1
            if self._observer is not None:
                self._observer.refused(caller, actions[0], resource, decision)
            raise PermissionDeniedError(decision.reason)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever decisions may have changed, until ``forget``."""
        self._listeners[listener] = None

    def forget(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``. Safe to repeat."""
        self._listeners.pop(listener, None)

    def statistics(self) -> dict[str, Any]:
        """Return the counters for metrics."""
        age_ms = None if self._read_at is None else round((self._loop.time() - self._read_at) * 1e3)
        return {
            "grants": len(self._table.grants),
            "grants_age_ms": age_ms,
            "refusals": {action.value: self._refusals[action.value] for action in Action},
        }

    def _stale_reason(self) -> str:
        if self._read_at is None:
            return "this process could not read the grants yet"
        age_ms = round((self._loop.time() - self._read_at) * 1000)
        return f"this process has last read the grants {age_ms} ms ago, which is too long"

    # --- following ------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            await self._wakeup.wait(self._refresh_s)
            await self._refresh()

    async def _refresh(self) -> None:
        began_at = self._loop.time()
        try:
            table = await read_grants(self._store, self._root)
        except RhumblineError as error:
            if not self._is_failing:
                self._is_failing = True
                _LOG.warning("grants not read", error=error)
            return
        if self._is_failing:
            self._is_failing = False
            _LOG.info("grants read again")
        was_current = self.is_current
        self._read_at = began_at  # a change that was made since then may be missing in the table
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(began_at + self._stale_s, self._changed)
        if table.grants != self._table.grants or not was_current:
            self._table = table
            self._decisions.clear()
            self._changed()

    def _changed(self) -> None:
        self.generation += 1
        for listener in list(self._listeners):
            listener()


def access_control_of(
    store: MetadataStore, settings: SecuritySettings, observer: AccessObserver | None = None
) -> AccessControl:
    """Return the access control of a server with these settings; it is not started."""
    return AccessControl(
        store,
        refresh_ms=settings.grants_refresh_ms,
        stale_ms_max=settings.grants_stale_ms_max,
        observer=observer,
    )
