"""A simulated cluster for the tests of applications: region outages in virtual time.

``Rehearsal`` runs the production code of bookies and clients in the simulator. Each program of the
application runs on its own simulated host in a region, with a client that has the API of
``connect()``. The test's scenario function starts programs and injects faults. The seed determines
every random choice, so a failure can be replayed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from itertools import combinations
from typing import Any, Generic, Literal, Protocol, TypeVar

from ..client.connect import Client
from ..core.ledger.config import LedgerConfig
from ..core.log.policy import FlushPolicy, StreamPolicy
from ..core.protocol.errors import ConfigurationError, StreamExistsError
from ..core.protocol.quorum import Quorum
from ..core.protocol.start import EARLIEST
from .simulation.cluster import NAMESPACE, SimCluster, SimClusterSettings, bookie_host
from .simulation.world.loop import SimulationFailedError
from .simulation.world.sim_world import SimHost, SimTopology, SimWorld
from .simulation.world.waiting_line import waiting_line

T = TypeVar("T")

ClientProgram = Callable[[Client], Coroutine[Any, Any, T]]
"""An async function that uses a client connected in the program's region."""

RegionName = Literal["east", "north", "west", "south", "island", "far"] | str
"""The name of a region: one of those that a number of regions stands for, or one of the test's."""
REGION_NAMES = ("east", "north", "west", "south", "island", "far")
TRACE_LINES_SHOWN = 25


class ProgramKilledError(Exception):
    """A program's host was killed before the program finished."""


class RunningProgram(Generic[T]):
    """A handle on a started program.

    Awaiting the handle returns the program's result or raises its exception.
    """

    def __init__(self, host: SimHost, task: "asyncio.Task[T]", done: "asyncio.Future[T]") -> None:
        self.host = host
        self._task = task
        self._done = done
        self._was_awaited = False

    @property
    def is_done(self) -> bool:
        """True if the program has returned, failed or been killed."""
        return self._done.done()

    def kill(self) -> None:
        """Kill the program as SIGKILL does. Safe to repeat."""
        self.host.kill()

    def pause(self) -> None:
        """Freeze the program as SIGSTOP does; its timeouts and sessions keep expiring.

        ``resume`` ends the pause.
        """
        self.host.pause()

    def resume(self) -> None:
        """Continue a paused program as SIGCONT does."""
        self.host.resume()

    def __await__(self) -> Any:  # noqa: ANN401 - same type as Future.__await__
        self._was_awaited = True
        return self._done.__await__()

    def take_failure(self) -> BaseException | None:
        """Return the error of a program that failed and that nobody awaited, else None."""
        if self._was_awaited or not self._done.done() or self._done.cancelled():
            return None
        error = self._done.exception()
        return None if isinstance(error, ProgramKilledError) else error

    def describe_wait(self) -> str:
        """Return one line that says where the program waits; "" if it has ended."""
        if self._task.done() or self._done.done():
            return ""
        return f"{self.host.name} waits at {waiting_line(self._task)}"


class Rehearsal:
    """A simulated cluster that spans several regions.

    Created by the pytest fixture ``rhumbline_cluster``, or directly as a context manager.
    ``regions`` is the number of regions or their names, ``bookies`` the number of bookies in each
    region (1 to 10), ``rtt_ms`` the round trip between any two regions, and ``quorum`` the tuple
    (ensemble size E, write quorum WQ, ack quorum AQ, minimum regions R). Raises
    ConfigurationError, as all methods that take a region do if there is no such region.
    """

    def __init__(
        self,
        regions: int | Sequence[RegionName] = 3,
        *,
        bookies: int = 2,
        rtt_ms: float = 20.0,
        quorum: tuple[int, int, int, int] | None = None,
        seed: int = 1,
    ) -> None:
        names = tuple(REGION_NAMES[:regions] if isinstance(regions, int) else regions)
        if not names or len(set(names)) != len(names) or not 1 <= bookies <= 10:
            raise ConfigurationError(
                f"a rehearsal needs at least one region, distinct region names and 1 to 10 bookies "
                f"in each region, not regions {names} with {bookies} bookies"
            )
        self.regions = names
        self.seed = seed
        self._bookies = bookies
        delays = tuple((region, other, rtt_ms / 2) for region, other in combinations(names, 2))
        quorum_numbers = quorum or (3, 3, 2, min(2, len(names)))
        self._world = SimWorld(f"{seed} rehearsal", SimTopology(names, delays))
        settings = SimClusterSettings(
            policy=StreamPolicy(Quorum(*quorum_numbers), FlushPolicy(period_ms=0)),
            ledger=LedgerConfig(request_timeout_ms=1_000, underreplicated_ms_max=2_000),
        )
        self._cluster = SimCluster(self._world, settings, [bookies] * len(names))
        self._programs: list[RunningProgram[Any]] = []
        self._scenario: asyncio.Task[Any] | None = None
        self._killed_regions: dict[str, list[SimHost]] = {}
        self._was_run = False

    def __enter__(self) -> "Rehearsal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Discard all programs and hosts that still run. Safe to repeat."""
        self._world.loop.end_all_tasks()

    @property
    def now_s(self) -> float:
        """The virtual time since the cluster was created, in seconds."""
        return self._world.loop.now

    # --- running a scenario -----------------------------------------------------------------------

    def run(
        self, scenario: Callable[["Rehearsal"], Coroutine[Any, Any, T]], *, minutes_max: float = 60
    ) -> T:
        """Start the cluster, run an async scenario function and return its result.

        Sleeps and timeouts inside the scenario use virtual time, so minutes pass in milliseconds;
        ``minutes_max`` limits the virtual time. Re-raises any exception of the scenario, with the
        seed and the last lines of the trace attached as a note. May be called once.

        Raises also the error of a program that failed although nobody awaited it. If the scenario
        does not end, notes say at which lines it and its programs wait.
        """
        assert not self._was_run, "run() was already called: create a new Rehearsal"
        self._was_run = True
        try:
            return self._world.run(self._run_scenario(scenario), time_limit_s=minutes_max * 60)
        except BaseException as error:
            lines = "\n".join(self._world.trace.lines[-TRACE_LINES_SHOWN:])
            cause = error.__cause__ if isinstance(error, SimulationFailedError) else None
            for note in self._notes_on(error):
                (cause or error).add_note(f"rhumbline: {note}")
            (cause or error).add_note(f"rhumbline: seed {self.seed}; last trace lines:\n{lines}")
            if cause is not None:
                raise cause from None
            raise

    async def _run_scenario(self, scenario: Callable[["Rehearsal"], Coroutine[Any, Any, T]]) -> T:
        self._scenario = asyncio.current_task()
        await self._cluster.bootstrap()
        result = await scenario(self)
        for program in self._programs:
            if (error := program.take_failure()) is not None:
                raise error
        return result

    def _notes_on(self, error: BaseException) -> Iterator[str]:
        """Yield what explains the failure of a run: failed programs, and where the others wait."""
        for program in self._programs:
            failure = program.take_failure()
            if failure is error:
                yield f"program {program.host.name} failed, and the scenario did not await it"
            elif failure is not None:
                failed = f"{type(failure).__name__}: {failure}"
                yield f"program {program.host.name} failed as well, unawaited: {failed}"
        if isinstance(error, SimulationFailedError) and error.__cause__ is None:
            if self._scenario is not None:
                yield f"the scenario waits at {waiting_line(self._scenario)}"
            yield from filter(None, (program.describe_wait() for program in self._programs))

    # --- programs ---------------------------------------------------------------------------------

    def start_program(
        self, region: RegionName, program: ClientProgram[T], *, name: str = ""
    ) -> RunningProgram[T]:
        """Start a program on its own host in a region and return a handle on it."""
        self._check_region(region)
        number = len(self._programs) + 1
        host = self._world.host(f"{name or 'program'}-{number}-{region}", region)
        host.start(_idle)
        process = host.process
        assert process is not None
        done: asyncio.Future[T] = self._world.loop.create_future()
        task = host.spawn(self._run_client(host, region, program), f"{host.name} runs")

        def on_done(task: "asyncio.Task[T]") -> None:
            if done.done():
                return
            if task.cancelled():
                done.cancel()
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())

        def on_death() -> None:
            if not done.done():
                done.set_exception(ProgramKilledError(f"{host.name} was killed"))
                done.exception()  # a caller that killed the program need not await it

        task.add_done_callback(on_done, context=self._world.context)
        process.on_death.append(on_death)
        running = RunningProgram(host, task, done)
        self._programs.append(running)
        return running

    async def run_program(
        self, region: RegionName, program: ClientProgram[T], *, name: str = ""
    ) -> T:
        """Start a program, wait until it finishes and return its result."""
        running: Awaitable[T] = self.start_program(region, program, name=name)
        return await running

    async def _run_client(self, host: SimHost, region: RegionName, program: ClientProgram[T]) -> T:
        settings = self._cluster.settings
        store = host.metadata()
        client = Client(
            "simulated:",
            namespace=NAMESPACE,
            region=region,
            ledger=settings.ledger,
            writer=settings.writer,
            reader=settings.reader,
            store=store,
            runtime=host.runtime(),
        )
        try:
            async with client:
                return await program(client)
        finally:
            await store.close()

    async def create_stream(self, name: str) -> None:
        """Create a stream if it does not exist."""

        async def create(client: Client) -> None:
            try:
                await client.namespace().create_stream(name)
            except StreamExistsError:
                return

        await self.run_program(self.regions[0], create, name="operator")

    async def read_payloads(self, stream: str, *, region: RegionName | None = None) -> list[bytes]:
        """Read a stream from its start to its current end and return the payloads.

        The reader runs in ``region``; by default in the first region.
        """

        async def read(client: Client) -> list[bytes]:
            end = await client.namespace().end(stream)
            payloads: list[bytes] = []
            async with client.reader(stream, EARLIEST) as reader:
                while (batch := await reader.next_batch(until=end)) is not None:
                    payloads += batch.payloads()
            return payloads

        return await self.run_program(region or self.regions[0], read, name="auditor")

    # --- faults -----------------------------------------------------------------------------------

    def kill_region(self, region: RegionName) -> None:
        """Power off every host of a region without notice to its peers. Safe to repeat."""
        self._check_region(region)
        if region in self._killed_regions:
            return
        hosts = [host for host in self._world.hosts_in([region]) if host.is_running]
        self._killed_regions[region] = hosts
        for host in hosts:
            host.power_off()
        self._set_members(region, is_up=False)

    def restore_region(self, region: RegionName) -> None:
        """Restart the bookies of a killed region with their disks; its programs stay dead."""
        self._check_region(region)
        for host in self._killed_regions.pop(region, []):
            if host in self._cluster.bookie_hosts:
                host.start_again()
        self._set_members(region, is_up=True)

    def cut_region(self, region: RegionName) -> None:
        """Partition a region from all others; its hosts keep running.

        Each call needs its own ``heal_region``.
        """
        self._check_region(region)
        self._world.cut_region(region)

    def heal_region(self, region: RegionName) -> None:
        """End one ``cut_region``."""
        self._check_region(region)
        self._world.heal_region(region)

    def slow_region(self, region: RegionName, *, factor: float) -> None:
        """Multiply the delay of every link in and out of a region; 1 restores it."""
        self._check_region(region)
        for other in self.regions:
            for pair in ((region, other), (other, region)):
                if region != other:
                    self._world.network.link(*pair).slowness = factor

    def kill_bookie(self, region: RegionName, number: int = 0) -> None:
        """Kill a bookie as SIGKILL does; bookies of a region are numbered from 0."""
        self._bookie(region, number).kill()

    def restart_bookie(self, region: RegionName, number: int = 0) -> None:
        """Start a killed bookie again with its disk. Safe to repeat."""
        self._bookie(region, number).start_again()

    def stop_metadata_store(self) -> None:
        """Make the metadata store unavailable to all hosts. Safe to repeat."""
        self._world.metadata.health.is_down = True

    def start_metadata_store(self) -> None:
        """Make the metadata store available again. Safe to repeat."""
        self._world.metadata.health.is_down = False

    def _bookie(self, region: RegionName, number: int) -> SimHost:
        self._check_region(region)
        if not 0 <= number < self._bookies:
            raise ConfigurationError(
                f"region {region} has no bookie {number}, only 0 to {self._bookies - 1}"
            )
        return self._world.hosts[bookie_host(region, number)]

    def _check_region(self, region: RegionName) -> None:
        if region not in self.regions:
            raise ConfigurationError(
                f"there is no region {region!r}; the regions are {', '.join(self.regions)}"
            )

    def _set_members(self, region: RegionName, *, is_up: bool) -> None:
        for member in self._world.metadata.members:
            if member.region == region:
                member.is_up = is_up
        self._world.network.changed()


class RehearsalFactory(Protocol):
    """The type of the fixture ``rhumbline_cluster``, which makes clusters from its arguments."""

    def __call__(
        self,
        regions: int | Sequence[RegionName] = 3,
        *,
        bookies: int = 2,
        rtt_ms: float = 20.0,
        quorum: tuple[int, int, int, int] | None = None,
        seed: int | None = None,
    ) -> Rehearsal:
        """Create a cluster; see ``Rehearsal``. Without a seed it has that of the test."""
        ...


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()
