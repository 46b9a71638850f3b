"""Actions of visitors: drain, undrain, roll and repair; each is described before it is done."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ....client.connect import Client
from ....client.units import show_bytes, show_count
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.errors import InvalidArgumentError, UnavailableError
from ....regions.repair.progress import NO_REPAIR, IsLeaving
from ....regions.segment_repair.segment_faults import Remedy
from ....regions.segment_repair.segment_repairer import SegmentRepairer
from ...operate.drains.orders import (
    describe_reopened,
    drain_bookie,
    drain_region,
    examine_drain,
    find_region,
    leaves_bookie,
    leaves_region,
    set_region,
    undrain_bookie,
)
from ...operate.opened_cluster import Cluster
from ...streams.rolling import open_segment, roll_stream
from ..streams.stream_names import StreamName
from .operations_view import parts_of, stores_of

_GRACE_MS = 15_000
_ROLL_MS_MAX = 25_000
_BASIS_CHARACTERS = 24
_BOOKIE, _REGION, _STREAM = "bookie:", "region:", "stream:"


class ActionKind(StrEnum):
    """An action that the console offers."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    ROLL = "roll"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """An action with its effects, as they are known now."""

    kind: ActionKind
    target: str
    """``bookie:ID``, ``region:NAME`` or ``stream:NAMESPACE/NAME``."""
    title: str
    effects: list[str]
    """Sentences that say what will happen."""
    facts: list[str] = field(default_factory=list)
    """Facts that the effects follow from and that must not change before the action."""
    obstacles: list[str] = field(default_factory=list)
    """Reasons why it cannot be done; empty if it can."""

    @property
    def basis(self) -> str:
        """Identifies the action and its facts: a confirmation repeats it (rule CON-7)."""
        text = "\n".join([self.kind, self.target, *self.facts, "", *self.obstacles])
        return hashlib.sha256(text.encode()).hexdigest()[:_BASIS_CHARACTERS]

    def as_document(self) -> dict[str, Any]:
        """Return the action as JSON values."""
        return {
            "kind": self.kind.value,
            "target": self.target,
            "title": self.title,
            "effects": self.effects,
            "obstacles": self.obstacles,
            "basis": self.basis,
        }


class _Place(NamedTuple):
    """A bookie or region in the stores that know it."""

    clusters: list[Cluster]
    name: str
    is_leaving: IsLeaving
    drain: Callable[[], Awaitable[object]]
    undrain: Callable[[], Awaitable[object]]
    is_down: bool = False
    """True for a bookie that is not registered: a drain then declares it offline."""


class Actions:
    """Plans actions and does them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def plan(self, kind: ActionKind, target: str) -> PlannedAction:
        """Describe an action without doing it.

        Raises InvalidArgumentError (unknown target), NoSuchStreamError, UnavailableError.
        """
        match kind:
            case ActionKind.DRAIN:
                return await self._plan_drain(target)
            case ActionKind.UNDRAIN:
                return await self._plan_undrain(target)
            case ActionKind.ROLL:
                return await self._plan_roll(target)
            case ActionKind.REPAIR:
                return await self._plan_repair(target)

    async def act(self, kind: ActionKind, target: str, basis: str) -> str:
        """Do an action that was planned with this basis, and return what was done.

        Raises InvalidArgumentError if its basis is another one now (rule CON-7) or if something is
        in the way, and what the action itself raises.
        """
        planned = await self.plan(kind, target)
        if planned.basis != basis:
            raise InvalidArgumentError(f"{planned.title}: the effects have changed, look again")
        if planned.obstacles:
            raise InvalidArgumentError(f"{planned.title}: {'; '.join(planned.obstacles)}")
        if kind is ActionKind.ROLL:
            name = _stream_of(target)
            outcome = await roll_stream(
                self._client,
                name.namespace,
                name.stream,
                grace_ms=_GRACE_MS,
                timeout_ms=_ROLL_MS_MAX,
                force=False,
            )
            return outcome.describe(str(name))
        if kind is ActionKind.REPAIR:
            name = _stream_of(target)
            repaired = await (await self._repairer(name)).repair_all(name.stream)
            return f"{show_count(len(repaired), 'fault')} of {name} repaired"
        place = await self._place(target)
        if kind is ActionKind.DRAIN:
            await place.drain()
            return f"{place.name} gets no new data, and repair moves its data elsewhere"
        await place.undrain()
        return await describe_reopened(place.clusters, place.name, place.is_leaving)

    # --- plans ----------------------------------------------------------------------------------

    async def _plan_drain(self, target: str) -> PlannedAction:
        place = await self._place(target)
        first = "is down, and is declared offline" if place.is_down else "gets no new data"
        effects = [f"{place.name} {first} from now on."]
        obstacles: list[str] = []
        copies = size = writing = 0
        has_auditor = True
        for cluster in place.clusters:
            found, faults = await examine_drain(cluster, place.is_leaving)
            copies, size = copies + found.copies, size + found.bytes
            writing += found.writing
            obstacles += faults
            has_auditor &= await cluster.tasks.auditor() is not None
        moved = f"{show_count(copies, 'copy', 'copies')} (about {show_bytes(size)})"
        if place.is_down:
            effects.append("Its copies count as lost at once.")
            effects.append(f"Repair restores {moved} on other bookies from those that are left.")
        else:
            effects.append(f"Repair moves {moved} to other bookies, in the background.")
        if writing:
            ledgers = show_count(writing, "ledger")
            effects.append(f"Copies of {ledgers} that are being written move after a roll.")
        if not has_auditor:
            effects.append(f"Nothing moves yet, because {NO_REPAIR}.")
        effects.append("It can be undrained at any time.")
        title = f"Declare {place.name} offline" if place.is_down else f"Drain {place.name}"
        return PlannedAction(ActionKind.DRAIN, target, title, effects, [title], obstacles)

    async def _plan_undrain(self, target: str) -> PlannedAction:
        place = await self._place(target)
        effects = [
            f"{place.name} gets new data again, unless something else prevents it.",
            "Copies that have moved stay where they are; those that have not moved stay on it.",
        ]
        return PlannedAction(ActionKind.UNDRAIN, target, f"Undrain {place.name}", effects)

    async def _plan_roll(self, target: str) -> PlannedAction:
        name = _stream_of(target)
        store = await self._client.namespaces.find(name.namespace)
        namespace = self._client.namespace_of(store, name.namespace)
        last = open_segment(await namespace.describe(name.stream))
        title = f"Roll {name}"
        if last is None:
            return PlannedAction(
                ActionKind.ROLL, target, title, [], [], [f"{name} has no open segment"]
            )
        effects = [
            f"Segment {last.lssn} ends, and its ledger is closed. After that the segment can be "
            "repaired, moved and archived.",
            "A writer that is running continues in a new segment and loses no record.",
            "If the writer shows no activity for 15 s, the stream is taken over from it.",
        ]
        return PlannedAction(ActionKind.ROLL, target, title, effects, [f"segment {last.lssn}"])

    async def _plan_repair(self, target: str) -> PlannedAction:
        name = _stream_of(target)
        faults = await (await self._repairer(name)).inspect(name.stream)
        effects, obstacles = [], []
        for fault in faults:
            remedy = fault.remedy
            end = "nothing is changed" if remedy is Remedy.NONE else f"remedy: {remedy.value}"
            effects.append(f"Segment {fault.lssn}: {fault.text}; {end}.")
        if all(fault.remedy is Remedy.NONE for fault in faults):
            why = "no fault has a remedy" if faults else "the segments agree with their ledgers"
            obstacles.append(f"nothing to repair: {why}")
        title = f"Repair the segments of {name}"
        return PlannedAction(ActionKind.REPAIR, target, title, effects, list(effects), obstacles)

    # --- targets --------------------------------------------------------------------------------

    async def _repairer(self, name: StreamName) -> SegmentRepairer:
        store = await self._client.namespaces.find(name.namespace)
        namespace = self._client.namespace_of(store, name.namespace)
        return SegmentRepairer(store.store, store.ledgers, namespace)

    async def _place(self, target: str) -> _Place:
        stores, missing = await stores_of(self._client)
        if missing:
            raise UnavailableError("; ".join(missing.values()))
        clusters = [parts_of(store) for store in stores.values()]
        if target.startswith(_BOOKIE):
            bookie: BookieId = await clusters[0].find(target.removeprefix(_BOOKIE))
            return _Place(
                clusters,
                f"bookie {bookie}",
                leaves_bookie(bookie),
                lambda: drain_bookie(clusters, bookie, force=False),
                lambda: undrain_bookie(clusters, bookie),
                is_down=bookie not in await clusters[0].directory.up(),
            )
        if target.startswith(_REGION):
            region: Region = await find_region(clusters[0], target.removeprefix(_REGION))
            return _Place(
                clusters,
                f"region {region}",
                leaves_region(region),
                lambda: drain_region(clusters, region, force=False),
                lambda: set_region(clusters, region, None),
            )
        raise InvalidArgumentError(f"{target!r} is not a bookie or a region")


def _stream_of(target: str) -> StreamName:
    namespace, _, stream = target.removeprefix(_STREAM).partition("/")
    if not target.startswith(_STREAM) or not namespace or not stream:
        raise InvalidArgumentError(f"{target!r} is not a stream")
    return StreamName(namespace, stream)
