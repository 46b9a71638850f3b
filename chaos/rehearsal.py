"""A whole cluster inside a test, in virtual time: outages of regions for applications' own tests.

``Rehearsal`` is the simulator with the production code of bookies and clients in it. Programs of
the application run on machines of their own in its regions, with a client that has the API of
``connect()``; a story says what happens to the regions meanwhile. One seed decides everything.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import combinations
from typing import Any, Generic, TypeVar

from ..client.connect import Client
from ..core.ledger.config import LedgerConfig
from ..core.log.config import ReaderConfig, WriterConfig
from ..core.log.policy import FlushPolicy, StreamPolicy
from ..core.log.read.positioning import EARLIEST
from ..core.protocol.errors import ConfigurationError, StreamExistsError
from ..core.protocol.quorum import Quorum
from .simulation.cluster import NAMESPACE, SimCluster, SimClusterSettings
from .simulation.world.loop import SimulationFailedError
from .simulation.world.sim_world import SimHost, SimTopology, SimWorld

T = TypeVar("T")

Application = Callable[[Client], Coroutine[Any, Any, T]]
"""A program: what it does with a client of its region."""

REGION_NAMES = ("east", "north", "west", "south", "island", "far")
LINES_SHOWN = 25


class ProgramKilledError(Exception):
    """The machine of a program went down before the program had ended."""


class Running(Generic[T]):
    """A program that runs; await it for its result, which raises what it raised."""

    def __init__(self, host: SimHost, task: "asyncio.Task[T]", done: "asyncio.Future[T]") -> None:
        self.host = host
        self._task = task
        self._done = done

    @property
    def is_over(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._done.done()

    def kill(self) -> None:
        """SIGKILL. Safe to repeat."""
        self.host.kill()

    def pause(self) -> None:
        """SIGSTOP: its clock and its sessions run out meanwhile. ``resume`` ends it."""
        self.host.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.host.resume()

    def __await__(self) -> Any:  # noqa: ANN401 - as a future's
        return self._done.__await__()


class Rehearsal:
    """A cluster in some regions. The fixture ``rhumbline_cluster`` makes it, or ``with``.

    ``regions``: how many, or their names; ``bookies`` in each; ``rtt_ms`` between each two;
    ``quorum`` as (E, WQ, AQ, R). Raises ConfigurationError.
    """

    def __init__(
        self,
        regions: int | Sequence[str] = 3,
        *,
        bookies: int = 2,
        rtt_ms: float = 20.0,
        quorum: tuple[int, int, int, int] | None = None,
        seed: int = 1,
    ) -> None:
        names = tuple(REGION_NAMES[:regions] if isinstance(regions, int) else regions)
        if not names or len(set(names)) != len(names) or not 1 <= bookies <= 10:
            raise ConfigurationError("a rehearsal needs different regions, and 1 to 10 bookies")
        self.regions = names
        self.seed = seed
        delays = tuple((one, other, rtt_ms / 2) for one, other in combinations(names, 2))
        wanted = quorum or (3, 3, 2, min(2, len(names)))
        self._world = SimWorld(f"{seed} rehearsal", SimTopology(names, delays))
        settings = SimClusterSettings(
            policy=StreamPolicy(Quorum(*wanted), FlushPolicy(period_ms=0)),
            ledger=LedgerConfig(request_timeout_ms=1_000, underreplicated_ms_max=2_000),
            writer=WriterConfig(),
            reader=ReaderConfig(),
        )
        self._cluster = SimCluster(self._world, settings, [bookies] * len(names))
        self._programs = 0
        self._lost: dict[str, list[SimHost]] = {}
        self._was_played = False

    def __enter__(self) -> "Rehearsal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Buries what still runs. Safe to repeat."""
        self._world.loop.bury()

    @property
    def now_s(self) -> float:
        """Virtual seconds since the beginning."""
        return self._world.loop.now

    # --- a story --------------------------------------------------------------------------------

    def play(
        self, story: Callable[["Rehearsal"], Coroutine[Any, Any, T]], *, minutes_max: float = 60
    ) -> T:
        """Starts the cluster, plays a story to its end and returns its result.

        ``asyncio.sleep`` and time-outs in it are virtual: minutes pass in milliseconds. Raises what
        the story raises, with the seed and the last lines of the run as a note. Once only.
        """
        assert not self._was_played, "a rehearsal is played once: make another one"
        self._was_played = True
        try:
            return self._world.run(self._play(story), time_limit_s=minutes_max * 60)
        except BaseException as error:
            lines = "\n".join(self._world.trace.lines[-LINES_SHOWN:])
            cause = error.__cause__ if isinstance(error, SimulationFailedError) else None
            (cause or error).add_note(f"rhumbline: seed {self.seed}; what happened last:\n{lines}")
            if cause is not None:
                raise cause from None
            raise

    async def _play(self, story: Callable[["Rehearsal"], Coroutine[Any, Any, T]]) -> T:
        await self._cluster.found()
        return await story(self)

    # --- programs -------------------------------------------------------------------------------

    def start(self, region: str, application: Application[T], *, name: str = "") -> Running[T]:
        """Starts a program on a machine of its own in a region."""
        self._programs += 1
        host = self._world.host(f"{name or 'program'}-{self._programs}-{region}", region)
        host.start(_idle)
        process = host.process
        assert process is not None
        done: asyncio.Future[T] = self._world.loop.create_future()
        task = host.spawn(self._run(host, region, application), f"{host.name} runs")

        def ended(task: "asyncio.Task[T]") -> None:
            if done.done():
                return
            if task.cancelled():
                done.cancel()
            elif (error := task.exception()) is not None:
                done.set_exception(error)
            else:
                done.set_result(task.result())

        def died() -> None:
            if not done.done():
                done.set_exception(ProgramKilledError(f"{host.name} was killed"))
                done.exception()  # who does not await it knows that it killed it

        task.add_done_callback(ended, context=self._world.context)
        process.on_death.append(died)
        return Running(host, task, done)

    async def run(self, region: str, application: Application[T], *, name: str = "") -> T:
        """Runs a program to its end."""
        running: Awaitable[T] = self.start(region, application, name=name)
        return await running

    async def _run(self, host: SimHost, region: str, application: Application[T]) -> T:
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
                return await application(client)
        finally:
            await store.close()

    async def create_stream(self, name: str) -> None:
        """Makes a stream. Safe to repeat."""

        async def create(client: Client) -> None:
            try:
                await client.namespace().create_stream(name)
            except StreamExistsError:
                return

        await self.run(self.regions[0], create, name="operator")

    async def payloads(self, stream: str, *, region: str | None = None) -> list[bytes]:
        """All that a reader in a region gets who reads the stream to its end as it is now."""

        async def read(client: Client) -> list[bytes]:
            end = await client.namespace().end(stream)
            found: list[bytes] = []
            async with client.reader(stream, EARLIEST) as reader:
                while (batch := await reader.next_batch(until=end)) is not None:
                    found += batch.payloads()
            return found

        return await self.run(region or self.regions[0], read, name="auditor")

    # --- outages --------------------------------------------------------------------------------

    def lose(self, region: str) -> None:
        """Every machine of a region goes down, and nobody is told. Safe to repeat."""
        if region in self._lost:
            return
        hosts = [host for host in self._world.hosts_in([region]) if host.is_running]
        self._lost[region] = hosts
        for host in hosts:
            host.power_off()
        self._set_members(region, is_up=False)

    def restore(self, region: str) -> None:
        """A lost region comes back: its bookies start with their disks, programs stay dead."""
        for host in self._lost.pop(region, []):
            if host in self._cluster.bookie_hosts:
                host.start_again()
        self._set_members(region, is_up=True)

    def cut(self, region: str) -> None:
        """Nothing gets in or out of a region; what is in it lives."""
        self._world.cut_region(region)

    def heal(self, region: str) -> None:
        """Ends one ``cut``."""
        self._world.heal_region(region)

    def slow(self, region: str, *, times: float) -> None:
        """The ways in and out of a region take so many times as long; 1 ends it."""
        for other in self.regions:
            for pair in ((region, other), (other, region)):
                if region != other:
                    self._world.network.link(*pair).slowness = times

    def kill_bookie(self, region: str, number: int = 0) -> None:
        """SIGKILL to a bookie. ``start_bookie`` ends it."""
        self._bookie(region, number).kill()

    def start_bookie(self, region: str, number: int = 0) -> None:
        """A killed bookie starts again with its disk. Safe to repeat."""
        self._bookie(region, number).start_again()

    def lose_metadata(self) -> None:
        """The metadata store answers nobody. ``restore_metadata`` ends it."""
        self._world.metadata.health.is_down = True

    def restore_metadata(self) -> None:
        """It answers again. Safe to repeat."""
        self._world.metadata.health.is_down = False

    def _bookie(self, region: str, number: int) -> SimHost:
        return self._world.hosts[f"bookie-{region}-{number}"]

    def _set_members(self, region: str, *, is_up: bool) -> None:
        for member in self._world.metadata.members:
            if member.region == region:
                member.is_up = is_up
        self._world.network.changed()


MakeRehearsal = Callable[..., Rehearsal]
"""What the fixture ``rhumbline_cluster`` is: call it with the arguments of ``Rehearsal``."""


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()
