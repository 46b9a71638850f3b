"""Plays a scenario with real processes and toxiproxy links between regions."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from ....coldstore.stores.local import LocalColdStore
from ....core.protocol.errors import RhumblineError
from ....core.protocol.ledger_metadata import LedgerMetadata
from ...checker.run_record import RunRecord
from ..cold_store import compare_archive
from ..fault_kinds import LEADER, OWNER
from ..played_scenario import PlayedScenario
from ..report.scenario_outcome import Band
from ..scenario import ETCD, FDB, FILE, WAN, ZOOKEEPER, FaultTable, Scenario
from .cluster import SERVERS, WanCluster
from .faults import Faults
from .final_audit import Copies, missing_copies, probe_bookies, query_differences, regions_of_ids
from .histories import history_of
from .metadata.metadata_history import MetadataHistory
from .programs import app
from .programs.app_commands import AppCommands, NoProgressError, after_entry, format_position

_FINAL_APPENDS = 10
_POLL_S = 0.1


_METADATA_NOTES = {
    FILE: "the metadata store is a local file, which is neither delayed nor cut",
    ETCD: "etcd with a member in each region; each member advertises one address to its peers, so "
    "the delay between members depends on the destination only; a member whose region is cut off "
    "is paused",
    FDB: "FoundationDB with a process in each region; each process advertises one address to all "
    "others and to clients, so the delay depends on the destination only; a process whose region "
    "is cut off is paused",
    ZOOKEEPER: "ZooKeeper with a member in each region, without delay between members; a member "
    "whose region is cut off is paused",
}


class WanRun:
    """A run of one scenario in one cluster of processes."""

    def __init__(
        self, scenario: Scenario, seed: int, cluster: WanCluster, play: PlayedScenario
    ) -> None:
        self.scenario = scenario
        self.cluster = cluster
        self.result = play
        self.commands = AppCommands(cluster, play, self.note)
        self.faults = Faults(cluster, seed, self._relaunch)
        self.active_region = scenario.workload.writers[0].region
        self.is_over = False
        self._timed: list[asyncio.Task[None]] = []
        self._lines: list[tuple[float, str]] = []
        self.metadata: MetadataHistory | None = None
        self.copies: Copies = {}
        self.unreachable: set[str] = set()

    # --- the schedule -----------------------------------------------------------------------------

    async def play(self) -> None:
        """Run the scenario in the started cluster, from the first append to the final audit."""
        scenario, result, cluster = self.scenario, self.result, self.cluster
        store = await cluster.open_store()
        self.metadata = metadata = MetadataHistory(cluster, store)
        polling = asyncio.create_task(metadata.poll_forever())
        try:
            result.start_ms = app.now_ms()
            result.load_ends_ms = float(scenario.ends_ms)
            self._schedule()
            await self._until_ms(scenario.faults_end_ms)
            await asyncio.gather(*self._timed_before(scenario.faults_end_ms))
            all_copies = asyncio.create_task(self._await_all_copies())
            await self._until_ms(scenario.ends_ms)
            await asyncio.gather(*self._timed)
            await self._await_resumption()
            await all_copies
            result.load_ends_ms = self._now_ms()
            await self._verify_end_state()
        finally:
            tasks = [polling, *self._timed, *self.commands.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()

    def _schedule(self) -> None:
        """Create a task for each writer change, fault, catch-up reader and truncation."""
        work = self.scenario.workload
        for turn in work.writers:
            self._at(turn.at_ms, self._set_active_writer(turn.region))
        for fault in self.scenario.schedule():
            self._at(fault.at_ms, self._inject(fault))
        if work.catch_up_every_ms:
            for number in range(1, work.lasts_ms // work.catch_up_every_ms + 1):
                self._at(number * work.catch_up_every_ms, self.commands.catch_up(number))
        if work.truncate_every_ms:
            for number in range(1, work.lasts_ms // work.truncate_every_ms + 1):
                self._at(number * work.truncate_every_ms, self._truncate())

    def _at(self, at_ms: int, work: Awaitable[None]) -> None:
        async def later() -> None:
            await self._until_ms(at_ms)
            await work

        self._timed.append(asyncio.create_task(later(), name=str(at_ms)))

    def _timed_before(self, at_ms: int) -> list[asyncio.Task[None]]:
        return [task for task in self._timed if int(task.get_name()) < at_ms]

    def _now_ms(self) -> float:
        return app.now_ms() - self.result.start_ms

    async def _until_ms(self, at_ms: float) -> None:
        await asyncio.sleep(max(0.0, at_ms - self._now_ms()) / 1000)

    def note(self, source: str, text: str) -> None:
        """Add a line to the log of the run."""
        self._lines.append((app.now_ms(), f"{source:<14} {text}"))

    # --- writer changes and faults ----------------------------------------------------------------

    async def _set_active_writer(self, region: str) -> None:
        self.note("lab", f"{region} becomes the active writer")
        self.active_region = region
        for app_program in self.cluster.apps.values():
            app_program.send_command("write", is_on=app_program.region == region)

    async def _inject(self, fault: FaultTable) -> None:
        region = await self._region(fault.target)
        name = str(fault).replace(fault.target, region) if fault.target[0] == "@" else str(fault)
        self.note("fault", name)
        begin_ms = self._now_ms()
        end = await self.faults.begin(fault, region)
        await self._until_ms(begin_ms + fault.lasts_ms)
        if end is not None:
            await end()
            self.note("fault", f"{name} is over")
        regions = fault.regions(region)
        self.result.bands.append(Band(begin_ms, self._now_ms(), name, regions))

    async def _region(self, target: str) -> str:
        if target == OWNER:
            return self.active_region
        return await self.cluster.leader() if target == LEADER else target

    async def _relaunch(self, name: str) -> None:
        """Start a program again, as a supervisor would, unless it is running."""
        cluster = self.cluster
        for bookie in cluster.bookies:
            if bookie.name == name and not bookie.program.is_running:
                bookie.launch()
                await bookie.wait_ready()
        for member in cluster.members:
            if member.name == name and not member.program.is_running:
                member.program.launch()
        for program in cluster.others:
            if program.name == name and not program.is_running:
                program.launch()
        for region, app_program in cluster.apps.items():
            if app_program.name == name and not app_program.program.is_running:
                cluster.launch_app(region)
                if region == self.active_region and not self.is_over:
                    app_program.send_command("write", is_on=True)

    async def _truncate(self) -> None:
        await self.commands.truncate(self.active_region)

    # --- after the faults -------------------------------------------------------------------------

    async def _await_resumption(self) -> None:
        faults_end_ms = self.result.start_ms + self.scenario.faults_end_ms
        deadline_ms = faults_end_ms + self.scenario.expect.resume_ms_max
        while app.now_ms() < deadline_ms:
            for app_program in self.cluster.apps.values():
                app_program.read_events()
                called = {
                    (event[2], event[3])
                    for event in app_program.events
                    if event[0] == "call" and event[1] > faults_end_ms
                }
                for event in app_program.events:
                    if event[0] == "end" and event[4] == "ok" and (event[2], event[3]) in called:
                        return
            await asyncio.sleep(_POLL_S)
        self.note("lab", "appends did not resume")

    async def _await_all_copies(self) -> None:
        expect, begin_ms = self.scenario.expect, self._now_ms()
        if not expect.whole_ms_max:
            return
        problems = ["no check of copies has finished"]
        while self._now_ms() < begin_ms + expect.whole_ms_max:
            problems = await missing_copies(self.cluster, self._closed(), expect.whole_regions)
            if not problems:
                self.result.whole_ms = self._now_ms() - begin_ms
                return
            await asyncio.sleep(1.0)
        for problem in problems[:5]:
            self.note("lab", f"copies missing: {problem}")

    def _closed(self) -> list[LedgerMetadata]:
        return self.metadata.closed() if self.metadata is not None else []

    async def _verify_end_state(self) -> None:
        """Write with a new writer, read the stream in every region, audit bookies and archive."""
        self.is_over = True
        result, cluster = self.result, self.cluster
        for program in cluster.programs():
            if not program.is_running:
                raise NoProgressError(f"{program.name} is not running:\n{program.end_of_log()}")
        for app_program in cluster.apps.values():
            app_program.send_command("write", is_on=False)
        regions = self.scenario.topology.regions
        successor = cluster.apps[regions[(regions.index(self.active_region) + 1) % len(regions)]]
        await self.commands.finish(successor, "a new writer", "end", count=_FINAL_APPENDS)
        until = after_entry(self.commands.acked()[-1])
        for app_program in cluster.apps.values():
            await self.commands.finish(
                app_program,
                "a reader of the whole stream",
                "read",
                name=f"final {app_program.name}",
                start=format_position(result.truncated_before),
                until=until,
                is_complete=True,
            )
        assert self.metadata is not None
        await self.metadata.poll()
        self.copies, self.unreachable = await probe_bookies(cluster, self._closed())
        if self.scenario.workload.archives:
            history = history_of(list(cluster.apps.values()), [])
            read = next(read for read in history.reads if read.is_complete)
            cold = LocalColdStore(cluster.cold)
            try:
                found = await compare_archive(cold, app.NAMESPACE, read)
                result.archived, result.archive_faults = found
            finally:
                await cold.close()
            if self.scenario.workload.queries:
                result.query_faults = await query_differences(
                    cluster, self.active_region, read, until
                )

    def finish(self) -> None:
        """Complete the result of the run."""
        result, apps = self.result, list(self.cluster.apps.values())
        for app_program in apps:
            app_program.read_events()
            for event in app_program.events:
                if event[0] == "note":
                    self._lines.append((event[1], f"{event[2]:<14} {event[3]}"))
                if event[0] == "call":
                    result.regions[event[2]] = app_program.region
        result.history = history_of(apps, self.cluster.bookies)
        metadata = self.metadata
        if metadata is not None:
            result.record = RunRecord(
                result.history,
                metadata.ledgers,
                metadata.segments,
                regions_of_ids(self.cluster),
                lost=frozenset(lost for bookie in self.cluster.bookies for lost in bookie.lost),
                copies=self.copies,
                unreachable=frozenset(self.unreachable),
            )
        result.lines = [
            f"{at_ms - result.start_ms:12.3f} {line}" for at_ms, line in sorted(self._lines)
        ]


async def play_in_wan(
    scenario: Scenario, seed: int, *, servers: Path = SERVERS, keep: Path | None = None
) -> PlayedScenario:
    """Play a scenario with real processes, all of which have ended on return.

    ``servers`` is searched for toxiproxy and etcd in addition to PATH. Logs and data are kept in
    the folder ``keep``; without it they are deleted. An error that ends the run early is stored in
    ``PlayedScenario.broke``. Raises ConfigurationError if a server is not installed.
    """
    started = time.monotonic()
    # Otherwise gRPC logs a warning for each process started while a channel is open.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    folder = keep or Path(tempfile.mkdtemp(prefix="rhumbline-lab-"))
    folder.mkdir(parents=True, exist_ok=True)
    play = PlayedScenario(scenario, WAN, seed, history_of([], []))
    cluster = WanCluster(scenario, folder, servers)
    run = WanRun(scenario, seed, cluster, play)
    try:
        await cluster.start()
        await run.play()
    except NoProgressError as error:
        play.broke = f"no progress after the faults: {error}"
    except RhumblineError as error:
        play.broke = f"{type(error).__name__}: {error}"
    finally:
        cluster.aclose()
        run.finish()
        play.wan = _describe_network(cluster)
        play.real_s = time.monotonic() - started
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return play


def _describe_network(cluster: WanCluster) -> str:
    notes = [
        f"{len(cluster.toxiproxy.links)} toxiproxy links, one per (region, server), each with half "
        "of the round trip in each direction"
    ]
    notes.append(_METADATA_NOTES[cluster.scenario.topology.metadata])
    full = [fault for fault in cluster.scenario.fault if fault.kind == "full-disk"]
    if full:
        small = all(cluster.bookie(fault.target).has_small_disk for fault in full)
        notes.append(
            "a full disk is a small tmpfs that is filled"
            if small
            else "a full disk is simulated by a setting, because no tmpfs could be mounted"
        )
    return "; ".join(notes)
