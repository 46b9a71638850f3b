"""A simulated world: regions with hosts, on one loop, from one seed.

``SimWorld`` creates the parts and runs a coroutine in them. ``SimHost`` is a machine, whose disk
and address persist while processes on it come and go. Every part draws from its own generator,
seeded with the run's seed and the part's name, so that the draws of one part do not shift those of
another. The names that are passed to ``random_of`` are therefore part of a seed's identity.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from ....core.protocol.errors import InvariantBrokenError, RhumblineError
from ....core.runtime.runtime import Runtime
from ....core.runtime.state_machine import check_thoroughly
from .disk import DiskImage, SimDisk
from .log_lines import SimulatedLog
from .loop import SimLoop
from .metadata import MetadataSite, SimMetadataStore
from .network import SimLink, SimNetwork
from .process import ProcessState, SimProcess
from .trace import Trace

T = TypeVar("T")

START_OF_TIME_MS = 1_700_000_000_000
"""The wall clock at virtual time 0, in milliseconds since the Unix epoch."""

DISK_BYTES = 64 << 30

Main = Callable[["SimHost"], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class SimTopology:
    """Regions and the one-way delays between them (ms, the same in both directions)."""

    regions: tuple[str, ...]
    delays_ms: tuple[tuple[str, str, float], ...]
    local_delay_ms: float = 0.15
    metadata_regions: tuple[str, ...] = ()
    """The regions of the metadata store's members; empty: one member in each region."""


THREE_REGIONS = SimTopology(
    regions=("east", "north", "west"),
    delays_ms=(("east", "north", 5.0), ("north", "west", 20.0), ("east", "west", 40.0)),
)


class SimClock:
    """A host's wall clock, which differs from virtual time by ``skew_ms``."""

    def __init__(self, loop: SimLoop) -> None:
        self.skew_ms = 0
        self._loop = loop

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch according to this host."""
        return START_OF_TIME_MS + int(self._loop.now * 1000) + self.skew_ms


class SimHost:
    """A machine, or a container with a disk of its own on one.

    ``main`` is the program that runs whenever the host is started.
    """

    def __init__(self, world: "SimWorld", name: str, region: str, rack: str) -> None:
        self.world = world
        self.name = name
        self.region = region
        self.rack = rack
        self.machine: str | None = None
        """The machine that it shares with others, as one of several containers; None: its own."""
        self.node = world.network.add_node(name, region)
        self.clock = SimClock(world.loop)
        self.image = DiskImage(
            world.loop, world.random_of(f"disk {name}"), world.trace, name, DISK_BYTES
        )
        self.process: SimProcess | None = None
        self.starts = 0
        self.boots = 1
        self.main: Main | None = None
        self.around: Callable[[SimHost, Main], Coroutine[Any, Any, None]] | None = None
        """Runs ``main`` in each process, instead of a direct call."""

    def __repr__(self) -> str:
        return f"<host {self.name} {self.process}>"

    @property
    def is_running(self) -> bool:
        """True if a process runs on the host, even if it is paused."""
        return self.process is not None and not self.process.is_dead

    # --- for programs ---------------------------------------------------------------------------

    def runtime(self) -> Runtime:
        """Return a ``Runtime`` for the current process."""
        return Runtime(self.clock, self.world.random_of(f"process {self.name} {self.starts}"))

    def disk(self, root: str = "") -> SimDisk:
        """Return a handle to the disk for the current process."""
        return SimDisk(self.image, root)

    def metadata(self) -> SimMetadataStore:
        """Return a handle to the metadata store for the current process."""
        return self.world.metadata.client()

    def global_metadata(self) -> SimMetadataStore:
        """Return a handle to the global store; ``metadata`` is then that of a region."""
        assert self.world.global_metadata is not None
        return self.world.global_metadata.client()

    # --- starting and stopping ------------------------------------------------------------------

    def start(self, main: Main | None = None) -> None:
        """Start ``main`` in a new process; None: the program that ran last."""
        assert not self.is_running, f"{self.name} is already running"
        self.main = main or self.main
        assert self.main is not None
        if not self.node.is_up:
            self.node.is_up = True
            self.world.network.changed()
        self.starts += 1
        self.process = process = SimProcess(f"{self.name}/{self.starts}", self.name)
        self.world.trace.note(self.name, f"starts as {process.name}")
        work = self.main(self) if self.around is None else self.around(self, self.main)
        task = self.spawn(work, f"main of {process.name}")
        task.add_done_callback(self._ended, context=self.world.context)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Start a task in the current process."""
        assert self.process is not None
        return self.world.loop.create_task(work, name=name, context=self.process.context.copy())

    def _ended(self, task: "asyncio.Task[None]") -> None:
        process = self.process
        error = None if task.cancelled() else task.exception()
        if process is None or process.is_dead:
            return
        self.kill(why=f"ended: {type(error).__name__}: {error}" if error else "ended")
        if error is None:
            return
        if isinstance(error, RhumblineError) and not isinstance(error, InvariantBrokenError):
            self.world.later(1.0 + self.world.random.random(), self.start_again)
        else:
            self.world.loop.fail(error)

    def start_again(self) -> None:
        """Start the program unless it runs, as a supervisor does. Safe to repeat."""
        if not self.is_running:
            self.start()

    def kill(self, why: str = "killed") -> None:
        """Kill the process: written data stays in the page cache. Safe to repeat."""
        self._end(why, is_power_cut=False)

    def power_off(self) -> None:
        """Cut the power: unsynced bytes may be lost, and peers are not notified."""
        self._end("loses power", is_power_cut=True)
        self.node.is_up = False
        self.boots += 1
        self.world.network.changed()

    def _end(self, why: str, *, is_power_cut: bool) -> None:
        process = self.process
        if process is not None and not process.is_dead:
            self.world.trace.note(self.name, f"{process.name} {why}")
            process.die()
            self.world.network.process_died(process, is_power_cut=is_power_cut)
            self.world.dead_processes.append(process)
        if is_power_cut:
            self.image.lose_power()
        else:
            self.image.process_died()
        self.process = None

    def pause(self) -> None:
        """Pause the process (SIGSTOP). Safe to repeat."""
        if self.process is not None and self.process.state is ProcessState.RUNNING:
            self.world.trace.note(self.name, "is paused")
            self.process.pause()

    def resume(self) -> None:
        """Resume the process (SIGCONT). Safe to repeat."""
        if self.process is not None and self.process.state is ProcessState.PAUSED:
            self.world.trace.note(self.name, "is resumed")
            self.world.loop.resume(self.process)

    def wipe(self) -> None:
        """Kill the process and empty the disk."""
        self.kill("killed, and its disk wiped")
        self.image.format()

    def skew(self, skew_ms: int) -> None:
        """Set the offset of the wall clock."""
        self.world.trace.note(self.name, f"clock is {skew_ms} ms off")
        self.clock.skew_ms = skew_ms


class SimWorld:
    """All parts of one run. It is a context manager; leaving it ends all remaining tasks."""

    def __init__(
        self,
        seed: int | str,
        topology: SimTopology = THREE_REGIONS,
        *,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        check_thoroughly(True)
        self.seed = seed
        self.topology = topology
        self.loop = SimLoop()
        self.context = self.loop.world_process.context
        self.trace = Trace(self.loop, on_line=on_line)
        self.log = SimulatedLog(self.trace)
        self.random = self.random_of("world")
        self.network = SimNetwork(self.loop, self.random_of("network"), self.trace)
        self.loop.network = self.network
        for source, target, delay_ms in topology.delays_ms:
            for pair in ((source, target), (target, source)):
                self.network.links[pair] = SimLink(delay_ms, delay_ms * 0.1, 125e6)
        for region in topology.regions:
            delay_ms = topology.local_delay_ms
            self.network.links[region, region] = SimLink(delay_ms, delay_ms, 1.25e9)
        self.metadata = MetadataSite(
            self.network,
            self.random_of("metadata"),
            topology.metadata_regions or topology.regions,
        )
        self.global_metadata: MetadataSite | None = None
        """The global store, if ``metadata`` is a regional one."""
        self.hosts: dict[str, SimHost] = {}
        self.dead_processes: list[SimProcess] = []
        self.is_healed = False
        """True once all faults have ended for good."""

    def add_global_metadata(self, regions: Sequence[str]) -> None:
        """Make ``metadata`` a regional store, and add a global one with members in ``regions``."""
        random = self.random_of("global metadata")
        self.global_metadata = MetadataSite(self.network, random, regions, name="global-metadata")

    def __enter__(self) -> "SimWorld":
        self.log.open()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.loop.end_all_tasks()
        finally:
            self.log.end()

    def random_of(self, name: str) -> Random:
        """Return the random generator of one part."""
        return Random(f"{self.seed} {name}")  # string seeds are hashed with SHA-512: stable

    def host(self, name: str, region: str, rack: str = "r0") -> SimHost:
        """Create a host. Its name is part of a seed's identity."""
        assert region in self.topology.regions
        host = self.hosts[name] = SimHost(self, name, region, rack)
        return host

    def hosts_in(self, regions: Sequence[str]) -> list[SimHost]:
        """Return the hosts of some regions in order of creation."""
        return [host for host in self.hosts.values() if host.region in regions]

    def run(self, scenario: Coroutine[Any, Any, T], *, time_limit_s: float = 86_400.0) -> T:
        """Run ``scenario`` as the simulation itself; see ``SimLoop.run``."""
        return self.loop.run(scenario, time_limit_s=time_limit_s)

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call ``action`` after ``delay_s`` as the simulation itself."""
        self.loop.call_later(delay_s, action, context=self.context)

    # --- regions --------------------------------------------------------------------------------

    def cut_region(self, region: str) -> None:
        """Cut all paths between ``region`` and the others. Cuts are counted."""
        self.trace.note("world", f"region {region} is cut off")
        for other in self.topology.regions:
            if other != region:
                self.network.cut(region, other)
                self.network.cut(other, region)

    def heal_region(self, region: str) -> None:
        """End one ``cut_region``."""
        self.trace.note("world", f"region {region} is back")
        for other in self.topology.regions:
            if other != region:
                self.network.heal(region, other)
                self.network.heal(other, region)

    def heal_everything(self) -> None:
        """End all faults of paths, disks and the metadata store, and restart what is down."""
        self.trace.note("world", "everything is healed")
        self.network.heal_all()
        health = self.metadata.health
        health.is_down, health.slowness, health.watch_delay_ms = False, 1.0, 0.0
        health.lost_requests = health.lost_answers = health.late_requests = 0.0
        health.late_answers_ms = 0.0
        for host in self.hosts.values():
            host.resume()
            disk = host.image.health
            disk.is_lying, disk.slowness = False, 1.0
            disk.sync_failures = disk.write_failures = disk.read_failures = 0
            if host.main is not None:
                host.start_again()
