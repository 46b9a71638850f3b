"""The lab's faults in the simulator: most are its own, the others are made here.

Each gives what undoes it, or None if it is over at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from ..simulation.cluster import Fault, SimCluster
from ..simulation.faults import faults as sim
from ..simulation.world.sim_world import SimHost, SimWorld
from .cold_store import MemoryColdStore
from .scenario import FaultTable

Undo = Callable[[], None]

ITS_OWN = {
    "cut-region": "cut-region",
    "cut-one-way": "cut-one-way",
    "swizzle": "swizzle",
    "kill": "kill",
    "restart": "kill",
    "pause": "pause",
    "wipe": "wipe",
    "full-disk": "full-disk",
    "slow-disk": "slow-disk",
    "expire-sessions": "expire-sessions",
    "metadata-away": "metadata-down",
}
"""The lab's kinds that the simulator knows, by its name for them."""


class Stage(Protocol):
    """What faults strike."""

    world: SimWorld
    cluster: SimCluster
    cold: MemoryColdStore


def begin(stage: Stage, fault: FaultTable, region: str) -> Undo | None:
    """Begins a fault on its target; ``region`` is the target's, resolved, for regional kinds."""
    undo = _begin(stage, fault, region)
    for host in stage.cluster.bookie_hosts:
        if not host.is_running:  # what it has in memory is no longer looked at
            stage.cluster.bookies.pop(host.name, None)
    return undo


def _begin(stage: Stage, fault: FaultTable, region: str) -> Undo | None:
    own = ITS_OWN.get(fault.kind)
    if own is not None:
        target = region if fault.target.startswith("@") else fault.target
        lasting = Fault(own, target, fault.at_ms, fault.lasts_ms, fault.value)
        stage.world.trace.count(own)
        stage.cluster.faults_begun.append((stage.world.loop.now * 1000, lasting))
        return sim.KINDS[own](stage.cluster, lasting)
    return _MADE[fault.kind](stage, fault, region)


def _others(world: SimWorld, region: str) -> list[str]:
    return [other for other in world.topology.regions if other != region]


def _lose(stage: Stage, fault: FaultTable, region: str) -> Undo:
    world = stage.world
    hosts = [host for host in world.hosts_in([region]) if host.is_running]
    members = [node for node in world.metadata.members if node.region == region]
    for host in hosts:
        host.power_off()
    for member in members:
        member.is_up = False
    world.network.changed()

    def undo() -> None:
        for member in members:
            member.is_up = True
        world.network.changed()
        for host in hosts:
            host.start_again()

    return undo


def _member(stage: Stage, fault: FaultTable, region: str) -> Undo:
    members = [node for node in stage.world.metadata.members if node.region == region]
    for member in members:
        member.is_up = False
    stage.world.network.changed()

    def undo() -> None:
        for member in members:
            member.is_up = True
        stage.world.network.changed()

    return undo


def _cut(stage: Stage, pairs: list[tuple[str, str]]) -> Undo:
    network = stage.world.network
    for pair in pairs:
        network.cut(*pair)

    def undo() -> None:
        for pair in pairs:
            network.heal(*pair)

    return undo


def _mute(stage: Stage, fault: FaultTable, region: str) -> Undo:
    return _cut(stage, [(region, other) for other in _others(stage.world, region)])


def _deafen(stage: Stage, fault: FaultTable, region: str) -> Undo:
    return _cut(stage, [(other, region) for other in _others(stage.world, region)])


def _refuse(stage: Stage, fault: FaultTable, region: str) -> Undo:
    _reset_region(stage, fault, region)
    others = _others(stage.world, region)
    return _cut(stage, [*((region, o) for o in others), *((o, region) for o in others)])


def _links(stage: Stage, region: str) -> list[tuple[str, str]]:
    others = _others(stage.world, region)
    return [*((region, other) for other in others), *((other, region) for other in others)]


def _slow(stage: Stage, fault: FaultTable, region: str) -> Undo:
    links = [stage.world.network.link(*pair) for pair in _links(stage, region)]
    for link in links:
        link.delay_ms += fault.value

    def undo() -> None:
        for link in links:
            link.delay_ms -= fault.value

    return undo


def _narrow(stage: Stage, fault: FaultTable, region: str) -> Undo:
    links = [stage.world.network.link(*pair) for pair in _links(stage, region)]
    before = [link.bytes_per_s for link in links]
    for link in links:
        link.bytes_per_s = fault.value * 1024

    def undo() -> None:
        for link, was in zip(links, before, strict=True):
            link.bytes_per_s = was

    return undo


def _slice(stage: Stage, fault: FaultTable, region: str) -> Undo:
    """The simulator cuts deliveries everywhere, not only of one region."""
    network = stage.world.network
    before, network.cut_rate = network.cut_rate, 1.0

    def undo() -> None:
        network.cut_rate = before

    return undo


def _reset_region(stage: Stage, fault: FaultTable, region: str) -> None:
    for host in stage.world.hosts_in([region]):
        stage.world.network.reset_connections(host.node, fault.value or 1.0)


def _reset(stage: Stage, fault: FaultTable, region: str) -> None:
    stage.world.network.reset_connections(None, fault.value or 1.0)


def _cold_away(stage: Stage, fault: FaultTable, region: str) -> Undo:
    stage.cold.is_away = True

    def undo() -> None:
        stage.cold.is_away = False

    return undo


def _rolling(stage: Stage, fault: FaultTable, region: str) -> Undo:
    """Each is down for half of its share of the time."""
    world, cluster = stage.world, stage.cluster
    hosts = [*cluster.bookie_hosts, *cluster.app_hosts]
    share_s = fault.lasts_ms / 1000 / len(hosts)
    for place, host in enumerate(hosts):
        world.later(place * share_s, partial(_bounce, world, host, share_s / 2))
    return lambda: None


def _bounce(world: SimWorld, host: SimHost, down_s: float) -> None:
    if host.is_running:
        host.kill("is restarted")
        world.later(down_s, host.start_again)


_MADE: dict[str, Callable[[Stage, FaultTable, str], Undo | None]] = {
    "lose-region": _lose,
    "metadata-member": _member,
    "mute-region": _mute,
    "deafen-region": _deafen,
    "refuse-region": _refuse,
    "slow-region": _slow,
    "narrow-region": _narrow,
    "slice-region": _slice,
    "reset-region": _reset_region,
    "reset": _reset,
    "cold-away": _cold_away,
    "rolling-restart": _rolling,
}
