"""Kinds of faults: functions that begin a fault and return what ends it.

A fault is data (``Fault``: kind, target, start, duration, value). A fault whose target is not in
the required state, such as a host that is already down, does nothing. Any subset of a schedule is
therefore a valid schedule, which makes shrinking possible.

The text of a fault seeds the generators of ``swizzle``, ``wipe-members``, ``change-r`` and
``rebalance``, so the names of these kinds are part of a seed's identity.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ....core.bookie.index.index_directory import INDEX_DIRECTORY
from ....core.bookie.log.file_set import DIRECTORIES
from ....core.bookie.log.log_format import LOG_KIND
from ..cluster import STORAGE, Fault, SimCluster, data_directory
from ..world.disk import DiskImage
from ..world.metadata import MetadataHealth
from ..world.sim_world import DISK_BYTES, SimHost
from .index_keys import key_places

Undo = Callable[[], None]
Begin = Callable[[SimCluster, Fault], Undo | None]

KINDS: dict[str, Begin] = {}

DAMAGING = frozenset(
    {
        *("wipe", "wipe-region", "wipe-machine", "wipe-members", "rot", "spoil", "lying-disk"),
        *("rot-file", "rot-index", "truncate-file", "zero-page", "lose-file", "restore"),
    }
)
"""Kinds that destroy data; a quorum survives a limited number of them."""

TRIGGERED = "triggered"
"""The kind of faults that ledger events trigger; see ``triggered_faults``."""


def _kind(name: str) -> Callable[[Begin], Begin]:
    def register(begin: Begin) -> Begin:
        KINDS[name] = begin
        return begin

    return register


def schedule(cluster: SimCluster, faults: tuple[Fault, ...]) -> None:
    """Schedule the start of each fault, counted from now; ``begin`` schedules its end."""
    for fault in faults:
        if fault.kind != TRIGGERED:
            assert fault.kind in KINDS, fault
            cluster.world.later(fault.at_ms / 1000, partial(begin, cluster, fault))


def begin(cluster: SimCluster, fault: Fault) -> None:
    """Begin a fault now. It ends after ``lasts_ms``, or when everything is healed."""
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


def _start_all(hosts: Sequence[SimHost]) -> None:
    for host in hosts:
        host.start_again()


def _wipe_all(cluster: SimCluster, hosts: Sequence[SimHost]) -> Undo:
    """Replace the disks of the hosts by empty ones; the returned function starts them again."""
    for host in hosts:
        cluster.mark_damaged(host)
        host.wipe()
    return partial(_start_all, hosts)


# --- machines and processes ---------------------------------------------------------------------


@_kind("kill")
def _kill(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Kill the process (SIGKILL); it is restarted when the fault ends."""
    host = _host(cluster, fault)
    if not host.is_running:
        return None
    host.kill()
    return host.start_again


@_kind("power")
def _power(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Cut the power of one host."""
    host = _host(cluster, fault)
    if not host.is_running:
        return None
    host.power_off()
    return host.start_again


@_kind("power-region")
def _power_region(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut the power of all hosts of a region at once."""
    hosts = [h for h in cluster.world.hosts_in([fault.target]) if h.is_running]
    for host in hosts:
        host.power_off()
    return partial(_start_all, hosts)


def _on_machine(cluster: SimCluster, fault: Fault) -> list[SimHost]:
    return [host for host in cluster.bookie_hosts if host.machine == fault.target]


@_kind("kill-machine")
def _kill_machine(cluster: SimCluster, fault: Fault) -> Undo:
    """Kill all bookies of a machine at once."""
    hosts = [host for host in _on_machine(cluster, fault) if host.is_running]
    for host in hosts:
        host.kill()
    return partial(_start_all, hosts)


@_kind("power-machine")
def _power_machine(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut the power of a machine, with all its bookies."""
    hosts = [host for host in _on_machine(cluster, fault) if host.is_running]
    for host in hosts:
        host.power_off()
    return partial(_start_all, hosts)


@_kind("wipe-machine")
def _wipe_machine(cluster: SimCluster, fault: Fault) -> Undo:
    """Replace the disks of all bookies of a machine by empty ones."""
    return _wipe_all(cluster, _on_machine(cluster, fault))


@_kind("pause")
def _pause(cluster: SimCluster, fault: Fault) -> Undo:
    """Pause the process (SIGSTOP, SIGCONT), like a hang or a long garbage collection."""
    host = _host(cluster, fault)
    host.pause()
    return host.resume


@_kind("crash-in-disk")
def _crash_in_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut the power of a host during its ``value``-th disk operation from now.

    With a negative value only its process is killed.
    """
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
    """Replace the disk by an empty one; the bookie restarts at the same address."""
    host = _host(cluster, fault)
    cluster.mark_damaged(host)
    host.wipe()
    return host.start_again


@_kind("wipe-region")
def _wipe_region(cluster: SimCluster, fault: Fault) -> Undo:
    """Replace the disks of all bookies of a region by empty ones."""
    hosts = [host for host in cluster.bookie_hosts if host.region == fault.target]
    return _wipe_all(cluster, hosts)


@_kind("skew")
def _skew(cluster: SimCluster, fault: Fault) -> Undo:
    """Shift the wall clock of a host by ``value`` ms, and back at the end."""
    host = _host(cluster, fault)
    host.skew(int(fault.value))
    return lambda: host.skew(0)


# --- the network --------------------------------------------------------------------------------


@_kind("cut-region")
def _cut_region(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut all paths between a region and the others."""
    cluster.world.cut_region(fault.target)
    return lambda: cluster.world.heal_region(fault.target)


@_kind("cut-metadata")
def _cut_metadata(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut a region off from the members of the metadata store in the other regions."""
    network, site = cluster.world.network, cluster.world.metadata
    inside = [name for name, node in network.nodes.items() if node.region == fault.target]
    outside = [member.name for member in site.members if member.region != fault.target]
    pairs = [(name, other) for name in inside for other in outside]
    pairs += [(other, name) for name, other in pairs]
    for source, target in pairs:
        network.cut(source, target)

    def undo() -> None:
        for source, target in pairs:
            network.heal(source, target)

    return undo


@_kind("cut-from-region")
def _cut_from_region(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut all paths between a host and the bookies of a region. Target: ``host>region``."""
    network = cluster.world.network
    host, _, region = fault.target.partition(">")
    bookies = [other.name for other in cluster.bookie_hosts if other.region == region]
    pairs = [pair for name in bookies for pair in ((host, name), (name, host))]
    for source, target in pairs:
        network.cut(source, target)

    def undo() -> None:
        for source, target in pairs:
            network.heal(source, target)

    return undo


@_kind("cut-one-way")
def _cut_one_way(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut one direction between two regions or hosts. Target: ``from>to``."""
    source, _, target = fault.target.partition(">")
    cluster.world.network.cut(source, target)
    return lambda: cluster.world.network.heal(source, target)


@_kind("isolate")
def _isolate(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut off one host in both directions."""
    network, name = cluster.world.network, fault.target
    network.cut(name, "*")
    network.cut("*", name)

    def undo() -> None:
        network.heal(name, "*")
        network.heal("*", name)

    return undo


@_kind("deafen")
def _deafen(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut the incoming direction of one host: it sends but receives nothing."""
    network, name = cluster.world.network, fault.target
    network.cut("*", name)
    return lambda: network.heal("*", name)


@_kind("mute")
def _mute(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut the outgoing direction of one host: it receives but nothing that it sends arrives."""
    network, name = cluster.world.network, fault.target
    network.cut(name, "*")
    return lambda: network.heal(name, "*")


@_kind("swizzle")
def _swizzle(cluster: SimCluster, fault: Fault) -> Undo:
    """Cut off bookies one after the other, and reconnect them in another order."""
    world, network = cluster.world, cluster.world.network
    random = world.random_of(f"swizzle {fault}")
    hosts = [h for h in cluster.bookie_hosts if random.random() < 0.7]
    span_s = fault.lasts_ms / 1000
    down = random.sample(hosts, len(hosts))
    up = random.sample(hosts, len(hosts))
    for index, host in enumerate(down):
        name = host.name
        at_s = span_s * 0.5 * index / max(1, len(down))
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
    """Reset a share (``value``) of the connections of one host, or of all hosts."""
    network = cluster.world.network
    node = network.nodes.get(fault.target)
    network.reset_connections(node, fault.value or 1.0)


@_kind("lag")
def _lag(cluster: SimCluster, fault: Fault) -> Undo:
    """Delay packets from one host to another by ``value`` ms. Target: ``from>to``."""
    source, _, target = fault.target.partition(">")
    lags_ms = cluster.world.network.lags_ms
    lags_ms[source, target] = fault.value

    def undo() -> None:
        lags_ms.pop((source, target), None)

    return undo


@_kind("slow-link")
def _slow_link(cluster: SimCluster, fault: Fault) -> Undo:
    """Multiply the delay from one region to another by ``value``. Target: ``from>to``."""
    source, _, target = fault.target.partition(">")
    link = cluster.world.network.link(source, target)
    link.slowness = fault.value

    def undo() -> None:
        link.slowness = 1.0

    return undo


# --- disks --------------------------------------------------------------------------------------


@_kind("slow-disk")
def _slow_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """Multiply the latency of a disk by ``value``."""
    health = _host(cluster, fault).image.health
    health.slowness = fault.value

    def undo() -> None:
        health.slowness = 1.0

    return undo


@_kind("sync-error")
def _sync_error(cluster: SimCluster, fault: Fault) -> None:
    """Make the next sync of a disk fail."""
    _host(cluster, fault).image.health.sync_failures += 1


@_kind("write-error")
def _write_error(cluster: SimCluster, fault: Fault) -> None:
    """Make the next write to a disk fail after a part of it."""
    _host(cluster, fault).image.health.write_failures += 1


@_kind("read-error")
def _read_error(cluster: SimCluster, fault: Fault) -> None:
    """Make the next three reads of a disk fail."""
    _host(cluster, fault).image.health.read_failures += 3


@_kind("full-disk")
def _full_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """Limit a disk to ``value`` bytes more than it uses now."""
    image = _host(cluster, fault).image
    image.capacity_bytes = image.used_bytes() + int(fault.value)

    def undo() -> None:
        image.capacity_bytes = DISK_BYTES

    return undo


@_kind("rot")
def _rot(cluster: SimCluster, fault: Fault) -> None:
    """Flip ``value`` bits on a disk."""
    host = _host(cluster, fault)
    cluster.mark_damaged(host)
    for _ in range(max(1, int(fault.value))):
        cluster.world.trace.note("fault", f"a bit of {host.name} flips: {host.image.rot()}")


@_kind("spoil")
def _spoil(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Kill a bookie and flip a bit in the data that it wrote last; it restarts at the end."""
    host = _host(cluster, fault)
    if not host.is_running:
        return None
    host.kill()
    cluster.mark_damaged(host)
    where = host.image.rot_end(f"{STORAGE}/{DIRECTORIES[LOG_KIND]}/")
    cluster.world.trace.note("fault", f"a bit of {host.name} flips: {where}")
    return host.start_again


def _damage_files(
    cluster: SimCluster, fault: Fault, damage: Callable[[DiskImage, str], str], folder: str = ""
) -> Undo | None:
    """Damage ``value`` files of a bookie (at least one), each chosen anew among all in a folder.

    With a duration the bookie is killed before and restarted at the end, else it goes on.
    """
    host = _host(cluster, fault)
    cluster.mark_damaged(host)
    if fault.lasts_ms:
        host.kill()
    for _ in range(max(1, int(fault.value))):
        path = host.image.pick_file(f"{STORAGE}/{folder}")
        where = "there is no file" if path is None else damage(host.image, path)
        cluster.world.trace.note("fault", f"{fault.kind} on {host.name}: {where}")
    return host.start_again if fault.lasts_ms else None


@_kind("rot-file")
def _rot_file(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Flip a bit in each of ``value`` files of a bookie."""
    return _damage_files(cluster, fault, DiskImage.rot_file)


@_kind("rot-index")
def _rot_index(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Flip one or two bits of ids of ledgers or entries in each of ``value`` index files."""

    def rot_keys(image: DiskImage, path: str) -> str:
        places = key_places(bytes(image.names[path].cached))
        return image.rot_bytes(path, places) if places else f"{path} has no ids"

    return _damage_files(cluster, fault, rot_keys, f"{INDEX_DIRECTORY}/")


@_kind("truncate-file")
def _truncate_file(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Cut each of ``value`` files of a bookie at a random length."""
    return _damage_files(cluster, fault, DiskImage.truncate_file)


@_kind("zero-page")
def _zero_page(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Overwrite a page in each of ``value`` files of a bookie with zeros."""
    return _damage_files(cluster, fault, DiskImage.zero_page)


@_kind("lose-file")
def _lose_file(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Remove each of ``value`` files of a bookie."""
    return _damage_files(cluster, fault, DiskImage.lose_file)


@_kind("fail-directory")
def _fail_directory(cluster: SimCluster, fault: Fault) -> None:
    """Fail data directory number ``value`` of a bookie for good."""
    _host(cluster, fault).image.lose_root(data_directory(round(fault.value)))


@_kind("back-up")
def _back_up(cluster: SimCluster, fault: Fault) -> None:
    """Copy the disk of a bookie, for ``restore``."""
    host = _host(cluster, fault)
    cluster.backups[host.name] = host.image.back_up(), cluster.starts[host.name]


@_kind("restore")
def _restore(cluster: SimCluster, fault: Fault) -> Undo | None:
    """Kill a bookie and replace its disk by the last back-up; it restarts at the end.

    By default the files are copied back. With ``value`` 1 the back-up is an image of the disk, with
    the same inodes; it is restored only if the bookie was started since (rule BKE-25).
    """
    host = _host(cluster, fault)
    if host.name not in cluster.backups:
        return None
    backup, starts = cluster.backups[host.name]
    is_image = fault.value == 1
    if is_image and starts == cluster.starts[host.name]:
        return None
    cluster.mark_damaged(host)
    host.kill("killed, and its disk replaced by a back-up")
    host.image.restore(backup, is_image=is_image)
    return host.start_again


@_kind("wipe-members")
def _wipe_members(cluster: SimCluster, fault: Fault) -> Undo:
    """Replace the disks of ``value`` running bookies of the newest ledger by empty ones."""
    ledgers = cluster.ledgers_now()
    members = (
        max(ledgers, key=lambda ledger: ledger.ledger_id).last_fragment.bookies if ledgers else ()
    )
    running = [host for host in cluster.bookie_hosts if host.is_running]
    hosts = [host for host in running if cluster.bookie_ids.get(host.name) in members]
    hosts = cluster.world.random_of(f"members {fault}").sample(
        hosts, min(len(hosts), int(fault.value))
    )
    return _wipe_all(cluster, hosts)


@_kind("lying-disk")
def _lying_disk(cluster: SimCluster, fault: Fault) -> Undo:
    """Make syncs succeed without making anything durable."""
    host = _host(cluster, fault)
    cluster.mark_damaged(host)
    cluster.lying_bookies[cluster.bookie_ids[host.name]] = None
    host.image.health.is_lying = True

    def undo() -> None:
        host.image.health.is_lying = False

    return undo


# --- policies -----------------------------------------------------------------------------------


@_kind("change-r")
def _change_r(cluster: SimCluster, fault: Fault) -> None:
    """Set R to ``value``: of the ``namespace``, the ``stream``, or the ``ledgers`` being written.

    A policy is set by a random running application, and takes effect at the next segment. The
    writers of ledgers are told at once.
    """
    min_regions = int(fault.value)
    if fault.target == "ledgers":
        for change in list(cluster.r_changers):
            change(min_regions)
        return
    running = [host for host in cluster.app_hosts if host.is_running]
    if running:
        host = cluster.world.random_of(f"change-r {fault}").choice(running)
        host.spawn(cluster.set_min_regions(host, fault.target, min_regions), f"{fault}")


@_kind("rebalance")
def _rebalance(cluster: SimCluster, fault: Fault) -> None:
    """Order to rebalance at ``value`` bytes per second, or ``pause``. An order resumes as well."""
    running = [host for host in cluster.app_hosts if host.is_running]
    if running:
        host = cluster.world.random_of(f"rebalance {fault}").choice(running)
        is_paused = fault.target == "pause"
        host.spawn(cluster.rebalance(host, int(fault.value), is_paused=is_paused), f"{fault}")


# --- ends of segments ---------------------------------------------------------------------------


@_kind("idle")
def _idle(cluster: SimCluster, fault: Fault) -> Undo:
    """Let writers keep their sessions and append nothing."""
    cluster.writers_are_idle = True

    def undo() -> None:
        cluster.writers_are_idle = False

    return undo


@_kind("seal")
def _seal(cluster: SimCluster, fault: Fault) -> None:
    """Seal the stream, and unseal it after the duration."""
    assert cluster.operator is not None, "the plan has no operator"
    cluster.operator.seal(fault.lasts_ms)


@_kind("drain-member")
def _drain_member(cluster: SimCluster, fault: Fault) -> None:
    """Drain a bookie of the newest ledger, and reopen it after the duration."""
    assert cluster.operator is not None, "the plan has no operator"
    ledgers = cluster.ledgers_now()
    if ledgers:
        newest = max(ledgers, key=lambda ledger: ledger.ledger_id)
        victim = cluster.world.random_of(f"{fault}").choice(newest.last_fragment.bookies)
        cluster.operator.drain(victim, fault.lasts_ms)


@_kind("stop-proxy")
def _stop_proxy(cluster: SimCluster, fault: Fault) -> None:
    """Stop a proxy gracefully (SIGTERM), and start it again after the duration."""
    assert cluster.proxies is not None, "the plan has no proxies"
    cluster.proxies.stop(_host(cluster, fault), fault.lasts_ms)


@_kind("move-stream")
def _move_stream(cluster: SimCluster, fault: Fault) -> None:
    """Pin the stream to a write proxy, and set its home region to that of the proxy."""
    assert cluster.proxies is not None, "the plan has no proxies"
    cluster.proxies.move_to(_host(cluster, fault))


@_kind("roll")
def _roll(cluster: SimCluster, fault: Fault) -> None:
    """Replace a process by one of the newer program (value 1) or of the older one (0)."""
    assert cluster.upgrades is not None, "the plan has one version"
    host = _host(cluster, fault)
    cluster.upgrades.roll(host, to_new=bool(fault.value), pause_s=max(fault.lasts_ms, 1) / 1000)


@_kind("raise-level")
def _raise_level(cluster: SimCluster, fault: Fault) -> None:
    """Raise the feature level; the command is killed after ``value`` ms unless that is 0."""
    assert cluster.upgrades is not None, "the plan has one version"
    cluster.upgrades.raise_level(fault.value)


# --- the metadata store -------------------------------------------------------------------------


def _set_store_health(cluster: SimCluster, field: str, value: float) -> Undo:
    """Set a field of the store's health; the returned function restores the default."""
    health = cluster.world.metadata.health
    setattr(health, field, value)
    return partial(setattr, health, field, getattr(MetadataHealth(), field))


@_kind("metadata-down")
def _metadata_down(cluster: SimCluster, fault: Fault) -> Undo:
    """Make the metadata store unavailable."""
    return _set_store_health(cluster, "is_down", True)


@_kind("metadata-slow")
def _metadata_slow(cluster: SimCluster, fault: Fault) -> Undo:
    """Multiply the latency of the metadata store by ``value``."""
    return _set_store_health(cluster, "slowness", fault.value)


@_kind("metadata-loses-answers")
def _lost_answers(cluster: SimCluster, fault: Fault) -> Undo:
    """Lose a share of the store's responses after the operation was performed."""
    return _set_store_health(cluster, "lost_answers", fault.value)


@_kind("metadata-loses-requests")
def _lost_requests(cluster: SimCluster, fault: Fault) -> Undo:
    """Lose a share of the requests to the store."""
    return _set_store_health(cluster, "lost_requests", fault.value)


@_kind("metadata-late-answers")
def _late_answers(cluster: SimCluster, fault: Fault) -> Undo:
    """Delay the store's responses to reads by up to ``value`` ms each."""
    return _set_store_health(cluster, "late_answers_ms", fault.value)


@_kind("metadata-late-requests")
def _late_requests(cluster: SimCluster, fault: Fault) -> Undo:
    """Delay a share of the requests to the store until after their senders timed out."""
    return _set_store_health(cluster, "late_requests", fault.value)


@_kind("late-watches")
def _late_watches(cluster: SimCluster, fault: Fault) -> Undo:
    """Delay watch events by up to ``value`` ms each, so that they overtake each other."""
    return _set_store_health(cluster, "watch_delay_ms", fault.value)


@_kind("expire-sessions")
def _expire_sessions(cluster: SimCluster, fault: Fault) -> None:
    """Expire the store's sessions of a running process."""
    for client in cluster.world.metadata.clients:
        if client.process.node == fault.target and not client.process.is_dead:
            client.expire_session()
