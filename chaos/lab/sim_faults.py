"""The faults of scenarios in the simulator.

Most kinds exist in the simulator itself; the others are implemented here. Beginning a fault returns
the function that ends it, or None if the fault has no duration.
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

SIMULATOR_KINDS = {
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
"""Fault kinds of scenarios that the simulator implements, with the simulator's name for each."""


class SimulatedSystem(Protocol):
    """The simulated system that faults act on."""

    world: SimWorld
    cluster: SimCluster
    cold: MemoryColdStore


def begin(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo | None:
    """Begin a fault and return the function that ends it.

    ``region`` is the resolved region of the target, for kinds that act on a region.
    """
    undo = _begin(system, fault, region)
    for host in system.cluster.bookie_hosts:
        if not host.is_running:  # its state in memory is no longer inspected
            system.cluster.bookies.pop(host.name, None)
    return undo


def _begin(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo | None:
    sim_kind = SIMULATOR_KINDS.get(fault.kind)
    if sim_kind is not None:
        target = region if fault.target.startswith("@") else fault.target
        lasting = Fault(sim_kind, target, fault.at_ms, fault.lasts_ms, fault.value)
        system.world.trace.count(sim_kind)
        system.cluster.faults_begun.append((system.world.loop.now * 1000, lasting))
        return sim.KINDS[sim_kind](system.cluster, lasting)
    return _LAB_KINDS[fault.kind](system, fault, region)


def _others(world: SimWorld, region: str) -> list[str]:
    return [other for other in world.topology.regions if other != region]


def _lose_region(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    world = system.world
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


def _stop_metadata_member(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    members = [node for node in system.world.metadata.members if node.region == region]
    for member in members:
        member.is_up = False
    system.world.network.changed()

    def undo() -> None:
        for member in members:
            member.is_up = True
        system.world.network.changed()

    return undo


def _cut(system: SimulatedSystem, pairs: list[tuple[str, str]]) -> Undo:
    network = system.world.network
    for pair in pairs:
        network.cut(*pair)

    def undo() -> None:
        for pair in pairs:
            network.heal(*pair)

    return undo


def _mute(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    return _cut(system, [(region, other) for other in _others(system.world, region)])


def _deafen(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    return _cut(system, [(other, region) for other in _others(system.world, region)])


def _refuse(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    _reset_region(system, fault, region)
    others = _others(system.world, region)
    return _cut(system, [*((region, o) for o in others), *((o, region) for o in others)])


def _links(system: SimulatedSystem, region: str) -> list[tuple[str, str]]:
    others = _others(system.world, region)
    return [*((region, other) for other in others), *((other, region) for other in others)]


def _slow(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    links = [system.world.network.link(*pair) for pair in _links(system, region)]
    for link in links:
        link.delay_ms += fault.value

    def undo() -> None:
        for link in links:
            link.delay_ms -= fault.value

    return undo


def _narrow(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    links = [system.world.network.link(*pair) for pair in _links(system, region)]
    before = [link.bytes_per_s for link in links]
    for link in links:
        link.bytes_per_s = fault.value * 1024

    def undo() -> None:
        for link, bytes_per_s in zip(links, before, strict=True):
            link.bytes_per_s = bytes_per_s

    return undo


def _slice(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    """Split deliveries into pieces everywhere; the simulator cannot do so for a single region."""
    network = system.world.network
    before, network.cut_rate = network.cut_rate, 1.0

    def undo() -> None:
        network.cut_rate = before

    return undo


def _reset_region(system: SimulatedSystem, fault: FaultTable, region: str) -> None:
    for host in system.world.hosts_in([region]):
        system.world.network.reset_connections(host.node, fault.value or 1.0)


def _reset(system: SimulatedSystem, fault: FaultTable, region: str) -> None:
    system.world.network.reset_connections(None, fault.value or 1.0)


def _cold_away(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    system.cold.is_unavailable = True

    def undo() -> None:
        system.cold.is_unavailable = False

    return undo


def _rolling(system: SimulatedSystem, fault: FaultTable, region: str) -> Undo:
    """Restart all hosts in order; each is down for half of its share of the duration."""
    world, cluster = system.world, system.cluster
    hosts = [*cluster.bookie_hosts, *cluster.app_hosts]
    share_s = fault.lasts_ms / 1000 / len(hosts)
    for index, host in enumerate(hosts):
        world.later(index * share_s, partial(_restart, world, host, share_s / 2))
    return lambda: None


def _restart(world: SimWorld, host: SimHost, down_s: float) -> None:
    if host.is_running:
        host.kill("is restarted")
        world.later(down_s, host.start_again)


_LAB_KINDS: dict[str, Callable[[SimulatedSystem, FaultTable, str], Undo | None]] = {
    "lose-region": _lose_region,
    "metadata-member": _stop_metadata_member,
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
