"""Faults that a ledger event triggers: creation, ensemble change, start of recovery or close.

A fault at a random time seldom hits the few milliseconds that matter. A triggered fault is armed
for ``lasts_ms``. Whenever a ledger reaches the event that is its target, it may inject a fault into
one of the ledger's bookies or into an application, or make another application the active writer,
within ``value`` ms.

The string "ambushes" seeds the generator, so it is part of a seed's identity.
"""

from collections.abc import Callable
from functools import partial
from random import Random

from ....core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ....core.wire import ledger_metadata as ledger_codec
from ..cluster import Fault, SimCluster
from ..world.metadata import Commit, ledger_id_of
from .faults import DAMAGING, TRIGGERED, begin

LEDGER_EVENTS = ("created", "changed", "recovered", "closed")

_BOOKIE_FAULTS = (
    "reset",
    "isolate",
    "deafen",
    "mute",
    "pause",
    "lag-out",
    "lag-in",
    "kill",
    "power",
    "read-error",
)
_CLIENT_FAULTS = ("pause", "isolate", "mute", "deafen")
_HIT_SHARE = 0.7
_CLIENT_SHARE = 0.15
_TAKE_OVER_SHARE = 0.15


class TriggeredFaults:
    """All triggered faults of a run."""

    def __init__(
        self, cluster: SimCluster, faults: tuple[Fault, ...], take_over: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._take_over = take_over
        self._world = cluster.world
        self._random = Random(f"{cluster.world.seed} ambushes")
        self._begun_ms = self._world.loop.now * 1000
        self._faults = [fault for fault in faults if fault.kind == TRIGGERED]
        # Data is damaged only if no other fault does: each quorum survives the loss of one bookie.
        self._kinds = (
            _BOOKIE_FAULTS
            if DAMAGING & {fault.kind for fault in faults}
            else (*_BOOKIE_FAULTS, "wipe", "spoil", "spoil")
        )
        self._known: dict[int, None] = {}
        if self._faults:
            self._world.metadata.tree.on_commit = self._on_commit

    def _on_commit(self, commit: Commit) -> None:
        ledger_id = ledger_id_of(commit.path)
        if ledger_id is None or not commit.data:
            return
        metadata = ledger_codec.decode(ledger_id, commit.data)
        event = self._event_of(metadata)
        now_ms = self._world.loop.now * 1000 - self._begun_ms
        for fault in self._faults:
            is_on = fault.at_ms <= now_ms <= fault.at_ms + fault.lasts_ms
            if is_on and fault.target == event and self._random.random() < _HIT_SHARE:
                self._trigger(metadata, fault.value)

    def _event_of(self, metadata: LedgerMetadata) -> str:
        is_new = metadata.ledger_id not in self._known
        self._known[metadata.ledger_id] = None
        if metadata.state is LedgerState.CLOSED:
            return "closed"
        if metadata.state is LedgerState.IN_RECOVERY:
            return "recovered"
        return "created" if is_new else "changed"

    def _trigger(self, metadata: LedgerMetadata, within_ms: float) -> None:
        random = self._random
        after_s = random.random() * within_ms / 1000
        if random.random() < _TAKE_OVER_SHARE:
            successor = random.choice(self._cluster.app_hosts).name
            self._world.later(after_s, partial(self._take_over, successor))
            return
        fault = self._choose_fault(metadata)
        if fault is not None:
            self._world.later(after_s, partial(self._begin, fault))

    def _begin(self, fault: Fault) -> None:
        """Begin a fault, unless it damages data and another one did after this one was chosen."""
        if fault.kind not in DAMAGING or not self._cluster.lost:
            begin(self._cluster, fault)

    def _choose_fault(self, metadata: LedgerMetadata) -> Fault | None:
        random = self._random
        lasts_ms = random.choice((20, 100, 400, 1500))
        client = random.choice(self._cluster.app_hosts).name
        if random.random() < _CLIENT_SHARE:
            return Fault(random.choice(_CLIENT_FAULTS), client, 0, lasts_ms)
        names = {bookie: name for name, bookie in self._cluster.bookie_ids.items()}
        victim = names.get(random.choice(metadata.last_fragment.bookies))
        if victim is None:
            return None
        kind = random.choice(self._kinds)
        if kind in DAMAGING:
            return None if self._cluster.lost else Fault(kind, victim, 0, lasts_ms)
        if kind == "reset":
            return Fault("reset", victim, 0, 0, 1.0)
        if kind == "read-error":
            return Fault(kind, victim, 0)
        if kind.startswith("lag"):
            path = f"{client}>{victim}" if kind == "lag-in" else f"{victim}>{client}"
            return Fault("lag", path, 0, lasts_ms, random.choice((10, 50, 300)))
        return Fault(kind, victim, 0, lasts_ms)
