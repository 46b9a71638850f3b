"""Faults as data: what happens to whom, from when to when. A schedule can be shrunk by leaving out.

Each kind is two functions, begin and end. A fault whose target is in another state than it wants (a
host that is down already) does nothing, so that any subset of a schedule is a schedule.
"""

from collections.abc import Callable
from functools import partial

from ....core.bookie.log.file_set import DIRECTORIES
from ....core.bookie.log.log_format import LOG_KIND
from ..cluster import STORAGE, Fault, SimCluster
from ..world.metadata import MetadataHealth
from ..world.sim_world import DISK_BYTES, SimHost

Undo = Callable[[], None]
Begin = Callable[[SimCluster, Fault], Undo | None]

KINDS: dict[str, Begin] = {}

DAMAGING = frozenset({"wipe", "wipe-region", "wipe-members", "rot", "spoil", "lying-disk"})
"""What destroys data, of which every quorum survives only so much."""

AMBUSH = "ambush"
"""A fault that is no moment's: see module ambush."""


def _kind(name: str) -> Callable[[Begin], Begin]:
    def register(begin: Begin) -> Begin:
        KINDS[name] = begin
        return begin

    return register


def schedule(cluster: SimCluster, faults: tuple[Fault, ...]) -> None:
    """Lets each fault begin and end in its time, counted from now."""
    for fault in faults:
        if fault.kind != AMBUSH:
            assert fault.kind in KINDS, fault
            cluster.world.later(fault.at_ms / 1000, partial(begin, cluster, fault))


def begin(cluster: SimCluster, fault: Fault) -> None:
    """Begins a fault now, whatever its time; it ends when it has lasted, or all was healed."""
    world = cluster.world
    if world.is_healed:
        return
    world.trace.note("fault", f"{fault.kind} {fault.target} {fault.value or ''}".rstrip())
    world.trace.count(fault.kind)
    cluster.faults_begun.append((world.loop.now * 1000, fault))
    undo = KINDS[fault.kind](cluster, fault)
    if undo is not None:

        def end() -> None:
            if world.is_healed:
                return
            world.trace.note("fault", f"{fault.kind} {fault.target} is over")
            undo()

        world.later(fault.lasts_ms / 1000, end)


def _host(cluster: SimCluster, fault: Fault) -> SimHost:
    return cluster.world.hosts[fault.target]


# --- machines and processes ---------------------------------------------------------------------


@_kind("kill")
def _kill(cluster: SimCluster, fault: Fault) -> Undo | None:
    """SIGKILL; its supervisor starts it again when the fault is over."""
    host = _host(cluster, fault)
    if not host.is_running:
        return None
    host.kill()
    return host.start_again


@_kind("power")
def _power(cluster: SimCluster, fault: Fault) -> Undo | None:
    """A power cut of one machine."""
    host = _host(cluster, fault)
    if not host.is_running:
        return None
    host.power_off()
    return host.start_again


@_kind("power-region")
def _power_region(cluster: SimCluster, fault: Fault) -> Undo:
    """A power cut of all machines of a region at once."""
    hosts = [h for h in cluster.world.hosts_in([fault.target]) if h.is_running]
    for host in hosts:
        host.power_off()

    def undo() -> None:
        for host in hosts:
            host.start_again()

    return undo


@_kind("pause")
def _pause(cluster: SimCluster, fault: Fault) -> Undo:
    """SIGSTOP and SIGCONT: a hung process, or a long collection of garbage."""
    host = _host(cluster, fault)
    host.pause()
    return host.resume


@_kind("crash-in-disk")
def _crash_in_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """A machine loses power while its ``value``-th disk operation from now is under way; with a
    negative value only its process dies."""
    host = _host(cluster, fault)
    image = host.image
    left = abs(int(fault.value))

    def crash() -> None:
        if host.is_running:
            cluster.world.trace.note("fault", f"{host.name} was in the middle of {where}")
            host.power_off() if fault.value > 0 else host.kill()

    where = "nothing"

    def on_operation(kind: str, path: str) -> None:
        nonlocal left, where
        left -= 1
        if left == 0:
            image.on_operation = None
            where = f"{kind} {path}"
            cluster.world.later(0, crash)

    image.on_operation = on_operation

    def undo() -> None:
        image.on_operation = None
        host.start_again()

    return undo


@_kind("wipe")
def _wipe(cluster: SimCluster, fault: Fault) -> Undo | None:
    """The disk is replaced by an empty one; the bookie comes back at the same address."""
    host = _host(cluster, fault)
    cluster.damage(host)
    host.wipe()
    return host.start_again


@_kind("wipe-region")
def _wipe_region(cluster: SimCluster, fault: Fault) -> Undo:
    """All bookies of a region lose their disks at once, and come back empty."""
    hosts = [host for host in cluster.bookie_hosts if host.region == fault.target]
    for host in hosts:
        cluster.damage(host)
        host.wipe()

    def undo() -> None:
        for host in hosts:
            host.start_again()

    return undo


@_kind("skew")
def _skew(cluster: SimCluster, fault: Fault) -> Undo:
    """The wall clock jumps, and jumps back."""
    host = _host(cluster, fault)
    host.skew(int(fault.value))
    return lambda: host.skew(0)


# --- the network --------------------------------------------------------------------------------


@_kind("cut-region")
def _cut_region(cluster: SimCluster, fault: Fault) -> Undo:
    """Nothing gets in or out of a region."""
    cluster.world.cut_region(fault.target)
    return lambda: cluster.world.heal_region(fault.target)


@_kind("cut-one-way")
def _cut_one_way(cluster: SimCluster, fault: Fault) -> Undo:
    """Nothing gets from one region to another; the way back works. Target: ``from>to``."""
    source, _, target = fault.target.partition(">")
    cluster.world.network.cut(source, target)
    return lambda: cluster.world.network.heal(source, target)


@_kind("isolate")
def _isolate(cluster: SimCluster, fault: Fault) -> Undo:
    """One machine is cut off in both directions."""
    network, name = cluster.world.network, fault.target
    network.cut(name, "*")
    network.cut("*", name)

    def undo() -> None:
        network.heal(name, "*")
        network.heal("*", name)

    return undo


@_kind("deafen")
def _deafen(cluster: SimCluster, fault: Fault) -> Undo:
    """One machine sends and hears nothing."""
    network, name = cluster.world.network, fault.target
    network.cut("*", name)
    return lambda: network.heal("*", name)


@_kind("mute")
def _mute(cluster: SimCluster, fault: Fault) -> Undo:
    """One machine hears and is not heard."""
    network, name = cluster.world.network, fault.target
    network.cut(name, "*")
    return lambda: network.heal(name, "*")


@_kind("swizzle")
def _swizzle(cluster: SimCluster, fault: Fault) -> Undo:
    """Bookies are cut off one after the other, and come back in another order."""
    world, network = cluster.world, cluster.world.network
    random = world.random_of(f"swizzle {fault}")
    hosts = [h for h in cluster.bookie_hosts if random.random() < 0.7]
    span_s = fault.lasts_ms / 1000
    down = random.sample(hosts, len(hosts))
    up = random.sample(hosts, len(hosts))
    for place, host in enumerate(down):
        name = host.name
        at_s = span_s * 0.5 * place / max(1, len(down))
        until_s = span_s * (0.5 + 0.5 * (up.index(host) + 1) / len(up))

        def clog(name: str = name) -> None:
            network.cut(name, "*")
            network.cut("*", name)

        def unclog(name: str = name) -> None:
            network.heal(name, "*")
            network.heal("*", name)

        world.later(at_s, clog)
        world.later(until_s, unclog)
    return lambda: None


@_kind("reset")
def _reset(cluster: SimCluster, fault: Fault) -> None:
    """Connections break (all, or those of one machine); ``value`` is the share."""
    network = cluster.world.network
    node = network.nodes.get(fault.target)
    network.reset_connections(node, fault.value or 1.0)


@_kind("lag")
def _lag(cluster: SimCluster, fault: Fault) -> Undo:
    """Packets from one machine to another take ``value`` ms longer. Target: ``from>to``."""
    source, _, target = fault.target.partition(">")
    lags_ms = cluster.world.network.lags_ms
    lags_ms[source, target] = fault.value

    def undo() -> None:
        lags_ms.pop((source, target), None)

    return undo


@_kind("slow-link")
def _slow_link(cluster: SimCluster, fault: Fault) -> Undo:
    """The way between two regions takes ``value`` times as long. Target: ``from>to``."""
    source, _, target = fault.target.partition(">")
    link = cluster.world.network.link(source, target)
    link.slowness = fault.value

    def undo() -> None:
        link.slowness = 1.0

    return undo


# --- disks --------------------------------------------------------------------------------------


@_kind("slow-disk")
def _slow_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """A disk takes ``value`` times as long."""
    health = _host(cluster, fault).image.health
    health.slowness = fault.value

    def undo() -> None:
        health.slowness = 1.0

    return undo


@_kind("sync-error")
def _sync_error(cluster: SimCluster, fault: Fault) -> None:
    """The next sync of a disk fails."""
    _host(cluster, fault).image.health.sync_failures += 1


@_kind("write-error")
def _write_error(cluster: SimCluster, fault: Fault) -> None:
    """The next write to a disk fails in the middle."""
    _host(cluster, fault).image.health.write_failures += 1


@_kind("read-error")
def _read_error(cluster: SimCluster, fault: Fault) -> None:
    """The next reads of a disk fail."""
    _host(cluster, fault).image.health.read_failures += 3


@_kind("full-disk")
def _full_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """A disk has ``value`` more bytes and then is full."""
    image = _host(cluster, fault).image
    image.capacity_bytes = image.used_bytes() + int(fault.value)

    def undo() -> None:
        image.capacity_bytes = DISK_BYTES

    return undo


@_kind("rot")
def _rot(cluster: SimCluster, fault: Fault) -> None:
    """Bits flip on a disk."""
    host = _host(cluster, fault)
    cluster.damage(host)
    for _ in range(max(1, int(fault.value))):
        cluster.world.trace.note("fault", f"a bit of {host.name} flips: {host.image.rot()}")


@_kind("spoil")
def _spoil(cluster: SimCluster, fault: Fault) -> Undo | None:
    """A bookie is killed, and one of the bytes that it wrote last rots before it starts again."""
    host = _host(cluster, fault)
    if not host.is_running:
        return None
    host.kill()
    cluster.damage(host)
    where = host.image.rot_end(f"{STORAGE}/{DIRECTORIES[LOG_KIND]}/")
    cluster.world.trace.note("fault", f"a bit of {host.name} flips: {where}")
    return host.start_again


@_kind("wipe-members")
def _wipe_members(cluster: SimCluster, fault: Fault) -> Undo:
    """``value`` running bookies of the newest ledger lose their disks at once, and come back
    empty."""
    ledgers = cluster.ledgers_now()
    members = max(ledgers, key=lambda one: one.ledger_id).last_fragment.bookies if ledgers else ()
    running = [host for host in cluster.bookie_hosts if host.is_running]
    hosts = [host for host in running if cluster.ids.get(host.name) in members]
    hosts = cluster.world.random_of(f"members {fault}").sample(
        hosts, min(len(hosts), int(fault.value))
    )
    for host in hosts:
        cluster.damage(host)
        host.wipe()

    def undo() -> None:
        for host in hosts:
            host.start_again()

    return undo


@_kind("lying-disk")
def _lying_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """Syncs return and nothing is durable."""
    host = _host(cluster, fault)
    cluster.damage(host)
    cluster.liars[cluster.ids[host.name]] = None
    host.image.health.is_lying = True

    def undo() -> None:
        host.image.health.is_lying = False

    return undo


# --- the metadata store -------------------------------------------------------------------------


def _store_is(cluster: SimCluster, what: str, value: float) -> Undo:
    """Something is wrong with the store (a field of its health), until it is well again."""
    health = cluster.world.metadata.health
    setattr(health, what, value)
    return partial(setattr, health, what, getattr(MetadataHealth(), what))


@_kind("metadata-down")
def _metadata_down(cluster: SimCluster, fault: Fault) -> Undo:
    """The store answers nobody."""
    return _store_is(cluster, "is_down", True)


@_kind("metadata-slow")
def _metadata_slow(cluster: SimCluster, fault: Fault) -> Undo:
    """The store takes ``value`` times as long."""
    return _store_is(cluster, "slowness", fault.value)


@_kind("metadata-loses-answers")
def _lost_answers(cluster: SimCluster, fault: Fault) -> Undo:
    """A share of the store's answers is lost after the work was done."""
    return _store_is(cluster, "lost_answers", fault.value)


@_kind("metadata-loses-requests")
def _lost_requests(cluster: SimCluster, fault: Fault) -> Undo:
    """A share of the requests to the store is lost."""
    return _store_is(cluster, "lost_requests", fault.value)


@_kind("metadata-late-requests")
def _late_requests(cluster: SimCluster, fault: Fault) -> Undo:
    """A share of the requests to the store comes so late that their senders have given them up."""
    return _store_is(cluster, "late_requests", fault.value)


@_kind("late-watches")
def _late_watches(cluster: SimCluster, fault: Fault) -> Undo:
    """Watches come up to ``value`` ms late, and overtake each other."""
    return _store_is(cluster, "watch_delay_ms", fault.value)


@_kind("expire-sessions")
def _expire_sessions(cluster: SimCluster, fault: Fault) -> None:
    """The store gives up the sessions of a process that lives."""
    for client in cluster.world.metadata.clients:
        if client.process.node == fault.target and not client.process.is_dead:
            client.expire_session()
