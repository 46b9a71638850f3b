"""Runs the processes of a cluster at two versions, and rolls them for an operator."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from ....core.bookie.bookie import Bookie
from ....core.metadata.cluster_layout import Paths, instance_id
from ....core.metadata.feature_level_store import raise_feature_level, require_feature_level
from ....core.metadata.feature_levels import FeatureRecord, LevelRange
from ....core.protocol.errors import FeatureLevelError, RefusedError, RhumblineError
from ....core.runtime.metadata_store import MetadataStore
from ....core.runtime.tasks import Tasks
from ....server.server_directory import ServerRecord, registered_server
from ....server.upgrade.process_versions import list_process_versions, nodes_of, older_than
from ....server.upgrade.registered_process import admitted_bookie, registered_process
from ...checker.upgrades.upgrade_use import Admission, UpgradeUse
from ..cluster import SimCluster, until
from ..world.metadata import MetadataSite
from ..world.process import SimProcess
from ..world.sim_world import Main, SimHost
from .program import ProgramPair, SimProgram
from .recorded_levels import RecordedLevels
from .versioned_store import VersionedProcess, VersionedStore

_FOLLOW_S = 0.5
"""Time between two reads of the feature level by a program that knows levels."""

_STOPS_S_MAX = 30.0
"""Time after the faults for a server that does not know the level to register again and to stop."""

_RESTART_S = 1.0
_ROLL_S = 0.1


class UpgradeControls:
    """Gives each process the program of its host. At first all hosts have the older one."""

    def __init__(self, cluster: SimCluster, repairers: list[SimHost], pair: ProgramPair) -> None:
        self.use = UpgradeUse(pair.level)
        self.is_raising = False
        """True while a command raises the level."""
        self.refused_starts = 0
        """Processes that did not begin because they do not know the level."""
        self._pair = pair
        self._cluster = cluster
        self._world = cluster.world
        self._repairers = repairers
        self._operator = self._world.host("upgrade-operator", self._world.topology.regions[0])
        self._programs: dict[str, SimProgram] = {self._operator.name: pair.new}
        self._running: dict[str, VersionedProcess] = {}
        self._levels = RecordedLevels(self._world.metadata.tree, self.use)
        self._world.metadata.make_client = self._client
        for host in self.hosts():
            host.around = self._run

    def hosts(self) -> list[SimHost]:
        """Return the hosts whose programs change."""
        return [*self._cluster.bookie_hosts, *self._repairers, *self._cluster.app_hosts]

    def levels_on(self, host: SimHost) -> LevelRange:
        """Return the feature levels that the program of a host knows."""
        return self._program_of(host).levels

    def start(self) -> None:
        """Start the host of the operator."""
        self._operator.start(_idle)

    # --- what the operator does -----------------------------------------------------------------

    def roll(self, host: SimHost, *, to_new: bool, pause_s: float = _ROLL_S) -> None:
        """Replace the process of a host by one of the newer or older program.

        What only the order of an operator prevents is not done: applications do not register, and
        programs from before feature levels do not read the level, so neither returns to the older
        program during the command that raises the level. A bookie from before feature levels would
        be taken for its successor as long as that is registered, so it starts after that.
        """
        program = self._pair.new if to_new else self._pair.old
        is_risen = self._stored().level >= self._pair.level
        is_registered = program.knows_levels and host not in self._cluster.app_hosts
        if not to_new and not is_registered and self.is_raising:
            return
        if not to_new and not program.knows_levels and is_risen:
            return
        if self._program_of(host) == program:
            return
        host.kill(f"stopped, and program {program.name} installed")
        if not program.knows_levels:
            self._levels.end_sessions(host.name)
        self._programs[host.name] = program
        self._world.later(pause_s, host.start_again)

    def raise_level(self, killed_after_ms: float) -> None:
        """Raise the level, unless an application has the older program (see rule UPG-2).

        With ``killed_after_ms`` the command is killed after that time.
        """
        if self.is_raising or self._are_applications_old() or not self._operator.is_running:
            return
        self._spawn(self._raise_once())
        if killed_after_ms:
            self._world.later(killed_after_ms / 1000, self._kill_operator)

    async def register_bookie(self, host: SimHost, bookie: Bookie) -> None:
        """Register a starting bookie whose program knows feature levels; wait until it may serve.

        Raises FeatureLevelError, MetadataUnavailableError.
        """
        assert host.process is not None
        program = self._running_on(host.process).program
        if not program.knows_levels:
            return
        known, stop = program.levels, partial(self._stop, host, host.process)
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def stay_registered() -> None:
            store, runtime = host.metadata(), host.runtime()
            try:
                async with admitted_bookie(store, runtime, bookie.bookie_id, stop, known=known):
                    admitted.set_result(None)
                    await asyncio.Event().wait()
            except RhumblineError as error:
                admitted.set_exception(error)

        host.spawn(stay_registered(), "register")
        await admitted

    async def finish(self, end: str, bound_s: float) -> None:
        """Bring all processes to the version ``end`` (new, old or mixed) after the faults.

        They become new if the level was raised, or is being raised. Then it must be possible to
        raise it.
        """
        stored = self._stored()
        if stored.level >= self._pair.level:
            await asyncio.sleep(_STOPS_S_MAX)
            self._note_running()
        if stored.raising or stored.level >= self._pair.level:
            end = "new"
        for host in self.hosts() if end in ("new", "old") else ():
            self.roll(host, to_new=end == "new")
            await asyncio.sleep(2 * _ROLL_S)
        if end == "new":
            if not self._operator.is_running:
                self._operator.start_again()
            await until(lambda: not self.is_raising)
            self._spawn(self._raise_within(bound_s))
            await until(lambda: not self.is_raising)
            await self._return_by_mistake(self._cluster.bookie_hosts[0])

    async def _return_by_mistake(self, host: SimHost) -> None:
        """Install the older program where the level was raised, and then the newer one again.

        The older one must refuse to begin (invariant G52).
        """
        self.roll(host, to_new=False)
        await asyncio.sleep(2 * _ROLL_S)
        self.roll(host, to_new=True)
        await asyncio.sleep(2 * _ROLL_S)

    # --- programs -------------------------------------------------------------------------------

    def _client(self, site: MetadataSite, process: SimProcess, timeout_ms: int) -> VersionedStore:
        running = self._running_on(process)
        return VersionedStore(site, process, timeout_ms, running, self.use, self._levels.owners)

    def _running_on(self, process: SimProcess) -> VersionedProcess:
        program = self._program_of(self._world.hosts[process.node])
        return self._running.setdefault(process.name, VersionedProcess(program, process.name))

    def _program_of(self, host: SimHost) -> SimProgram:
        return self._programs.get(host.name, self._pair.old)

    async def _run(self, host: SimHost, main: Main) -> None:
        """Run ``main`` in the way in which the commands of the product run a server."""
        assert host.process is not None
        if self._world.metadata.tree.node(Paths().instance_id) is None:
            await main(host)  # it founds the cluster
            return
        store, running = host.metadata(), self._running_on(host.process)
        tasks = Tasks()
        try:
            if running.program.knows_levels:
                called_ms = self._world.loop.now * 1000
                newest = running.program.levels.newest
                await self._check_level(store, running)
                self.use.admissions.append(Admission(running.process, newest, called_ms))
                if running.program == self._pair.new:
                    tasks.spawn(self._follow_level(store, running), "follow the feature level")
            if host in self._repairers:
                tasks.spawn(self._register_repair(host, store, running.program), "register")
            await main(host)
        finally:
            await tasks.aclose()

    async def _check_level(self, store: MetadataStore, running: VersionedProcess) -> None:
        try:
            await instance_id(store, known=running.program.levels)
        except FeatureLevelError:
            self.refused_starts += 1
            raise

    async def _follow_level(self, store: MetadataStore, running: VersionedProcess) -> None:
        """Write values in the newer format from the level on that permits it (rule UPG-4)."""
        while not running.writes_new_format and self._pair.has_new_format:
            try:
                await require_feature_level(store, self._pair.level, "values of the newer program")
            except RhumblineError:
                await asyncio.sleep(_FOLLOW_S)
            else:
                running.writes_new_format = True

    async def _register_repair(
        self, host: SimHost, store: MetadataStore, program: SimProgram
    ) -> None:
        record = ServerRecord("repair", "", f"{host.name}:1", host.region)
        runtime, known = host.runtime(), program.levels
        registration: AbstractAsyncContextManager[object]
        if program.knows_levels:
            stop, nodes = partial(self._stop, host, host.process), nodes_of(record, known)
            registration = registered_process(store, runtime, nodes, stop, known=known)
        else:
            registration = registered_server(store, runtime, record)
        async with registration:
            await asyncio.Event().wait()

    def _stop(self, host: SimHost, process: SimProcess | None) -> None:
        """Stop a process that does not know the level; its service manager starts it again."""

        def stop_now() -> None:
            if host.process is process:
                host.kill("stopped: it does not know the feature level")
                self._world.later(_RESTART_S, host.start_again)

        self._world.later(0.0, stop_now)

    def _note_running(self) -> None:
        admitted = {one.process: one.newest_level for one in self.use.admissions}
        for host in self.hosts():
            if host.process is not None and host.process.name in admitted:
                self.use.running_after[host.process.name] = admitted[host.process.name]

    # --- the command ----------------------------------------------------------------------------

    def _spawn(self, command: Coroutine[Any, Any, None]) -> None:
        self.is_raising = True
        task = self._operator.spawn(command, "raise the feature level")
        task.add_done_callback(self._on_done, context=self._world.context)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self.is_raising = False
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._world.loop.fail(error)

    def _kill_operator(self) -> None:
        if self.is_raising:
            self._operator.kill("killed while it raises the level")
            self.is_raising = False
            self._world.later(_RESTART_S, self._operator.start_again)

    async def _raise_once(self) -> None:
        store = self._operator.metadata()
        try:
            await self._raise(store)
        except RhumblineError as error:
            self.use.refusals += type(error) is RefusedError
            self._world.trace.note(self._operator.name, f"the level is not raised: {error}")

    async def _raise_within(self, bound_s: float) -> None:
        store = self._operator.metadata()
        deadline = self._world.loop.now + bound_s
        while True:
            try:
                await self._raise(store)
            except RhumblineError as error:
                if self._world.loop.now > deadline:
                    self.use.final_refusal = str(error)
                    return
                await asyncio.sleep(1.0)
            else:
                return

    async def _raise(self, store: MetadataStore) -> None:
        async def find_older(level: int) -> list[str]:
            return older_than(await list_process_versions(store), level)

        known = self._pair.new.levels
        await instance_id(store, known=known)
        await raise_feature_level(store, self._pair.level, find_older, known=known)

    def _are_applications_old(self) -> bool:
        return any(self._program_of(host) == self._pair.old for host in self._cluster.app_hosts)

    def _stored(self) -> FeatureRecord:
        node = self._world.metadata.tree.node(Paths().feature_level)
        return FeatureRecord.decode(None if node is None else node.data)


async def _idle(_: SimHost) -> None:
    await asyncio.Event().wait()
