"""A scenario with real processes: bookies, applications, servers, toxiproxy between regions."""

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
from ..scenario import ETCD, FILE, WAN, ZOOKEEPER, FaultTable, Scenario
from .cluster import SERVERS, WanCluster
from .faults import Faults
from .final_audit import Copies, ask_all, incomplete, query_faults, regions_of_ids
from .histories import history_of
from .metadata.metadata_history import MetadataHistory
from .programs import app
from .programs.app_commands import AppCommands, NotAliveError, behind, text_of

_FINAL_APPENDS = 10
_LOOK_S = 0.1


_STORES = {
    FILE: "the metadata store is a file of this host, neither delayed nor cut",
    ETCD: "etcd with a member in each region, whose peers see one address: between members the "
    "delay is by destination, and a member whose region is cut off is stopped",
    ZOOKEEPER: "ZooKeeper with a member in each region: no distance between members, and a member "
    "whose region is cut off is stopped",
}


class WanRun:
    """One scenario in one cluster."""

    def __init__(
        self, scenario: Scenario, seed: int, cluster: WanCluster, play: PlayedScenario
    ) -> None:
        self.scenario = scenario
        self.cluster = cluster
        self.result = play
        self.errands = AppCommands(cluster, play, self.note)
        self.faults = Faults(cluster, seed, self._relaunch)
        self.active = scenario.workload.writers[0].region
        self.is_over = False
        self._timed: list[asyncio.Task[None]] = []
        self._lines: list[tuple[float, str]] = []
        self.metadata: MetadataHistory | None = None
        self.copies: Copies = {}
        self.unasked: set[str] = set()

    # --- the course -----------------------------------------------------------------------------

    async def play(self) -> None:
        """From the first append to the last question; the cluster was started."""
        scenario, result, cluster = self.scenario, self.result, self.cluster
        store = await cluster.open_store()
        self.metadata = seen = MetadataHistory(cluster, store)
        looking = asyncio.create_task(seen.keep_looking())
        try:
            result.start_ms = app.now_ms()
            result.load_ends_ms = float(scenario.ends_ms)
            self._plan()
            await self._until_ms(scenario.calm_ms)
            await asyncio.gather(*self._timed_before(scenario.calm_ms))
            becoming = asyncio.create_task(self._become_whole())
            await self._until_ms(scenario.ends_ms)
            await asyncio.gather(*self._timed)
            await self._resume()
            await becoming
            result.load_ends_ms = self._now_ms()
            await self._epilogue()
        finally:
            tasks = [looking, *self._timed, *self.errands.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()

    def _plan(self) -> None:
        """Everything that has its time becomes a task."""
        work = self.scenario.workload
        for turn in work.writers:
            self._at(turn.at_ms, self._turn(turn.region))
        for fault in self.scenario.schedule():
            self._at(fault.at_ms, self._strike(fault))
        if work.catch_up_every_ms:
            for number in range(1, work.lasts_ms // work.catch_up_every_ms + 1):
                self._at(number * work.catch_up_every_ms, self.errands.catch_up(number))
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

    def note(self, who: str, what: str) -> None:
        """A line of the run."""
        self._lines.append((app.now_ms(), f"{who:<14} {what}"))

    # --- who writes, and what happens -----------------------------------------------------------

    async def _turn(self, region: str) -> None:
        self.note("lab", f"{region} is told to write")
        self.active = region
        for one in self.cluster.apps.values():
            one.tell("write", is_on=one.region == region)

    async def _strike(self, fault: FaultTable) -> None:
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
            return self.active
        return await self.cluster.leader() if target == LEADER else target

    async def _relaunch(self, name: str) -> None:
        """Starts a program again, unless it runs, as its supervisor would."""
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
        for region, one in cluster.apps.items():
            if one.name == name and not one.program.is_running:
                cluster.launch_app(region)
                if region == self.active and not self.is_over:
                    one.tell("write", is_on=True)

    async def _truncate(self) -> None:
        await self.errands.truncate(self.active)

    # --- after the faults -----------------------------------------------------------------------

    async def _resume(self) -> None:
        calm_ms = self.result.start_ms + self.scenario.calm_ms
        deadline_ms = calm_ms + self.scenario.expect.resume_ms_max
        while app.now_ms() < deadline_ms:
            for one in self.cluster.apps.values():
                one.look()
                called = {
                    (event[2], event[3])
                    for event in one.events
                    if event[0] == "call" and event[1] > calm_ms
                }
                for event in one.events:
                    if event[0] == "end" and event[4] == "ok" and (event[2], event[3]) in called:
                        return
            await asyncio.sleep(_LOOK_S)
        self.note("lab", "appends do not go on")

    async def _become_whole(self) -> None:
        expect, begin_ms = self.scenario.expect, self._now_ms()
        if not expect.whole_ms_max:
            return
        faults = ["nobody looked"]
        while self._now_ms() < begin_ms + expect.whole_ms_max:
            faults = await incomplete(self.cluster, self._closed(), expect.whole_regions)
            if not faults:
                self.result.whole_ms = self._now_ms() - begin_ms
                return
            await asyncio.sleep(1.0)
        for fault in faults[:5]:
            self.note("lab", f"not whole: {fault}")

    def _closed(self) -> list[LedgerMetadata]:
        return self.metadata.closed() if self.metadata is not None else []

    async def _epilogue(self) -> None:
        """A new writer, everything read in every region, every bookie asked."""
        self.is_over = True
        result, cluster = self.result, self.cluster
        for program in cluster.programs():
            if not program.is_running:
                raise NotAliveError(f"{program.name} has ended:\n{program.end_of_log()}")
        for one in cluster.apps.values():
            one.tell("write", is_on=False)
        regions = self.scenario.topology.regions
        heir = cluster.apps[regions[(regions.index(self.active) + 1) % len(regions)]]
        await self.errands.finish(heir, "a new writer", "end", count=_FINAL_APPENDS)
        until = behind(self.errands.acked()[-1])
        for one in cluster.apps.values():
            await self.errands.finish(
                one,
                "a reader of everything",
                "read",
                name=f"final {one.name}",
                start=text_of(result.truncated_before),
                until=until,
                is_complete=True,
            )
        assert self.metadata is not None
        await self.metadata.look()
        self.copies, self.unasked = await ask_all(cluster, self._closed())
        if self.scenario.workload.archives:
            history = history_of(list(cluster.apps.values()), [])
            read = next(one for one in history.reads if one.is_complete)
            cold = LocalColdStore(cluster.cold)
            try:
                found = await compare_archive(cold, app.NAMESPACE, read)
                result.archived, result.archive_faults = found
            finally:
                await cold.close()
            if self.scenario.workload.queries:
                result.query_faults = await query_faults(cluster, self.active, read, until)

    def finish(self) -> None:
        """Fills in what is handed over."""
        result, apps = self.result, list(self.cluster.apps.values())
        for one in apps:
            one.look()
            for event in one.events:
                if event[0] == "note":
                    self._lines.append((event[1], f"{event[2]:<14} {event[3]}"))
                if event[0] == "call":
                    result.regions[event[2]] = one.region
        result.history = history_of(apps, self.cluster.bookies)
        metadata = self.metadata
        if metadata is not None:
            result.record = RunRecord(
                result.history,
                metadata.ledgers,
                metadata.segments,
                regions_of_ids(self.cluster),
                lost=frozenset(one for bookie in self.cluster.bookies for one in bookie.lost),
                copies=self.copies,
                unasked=frozenset(self.unasked),
            )
        result.lines = [
            f"{at_ms - result.start_ms:12.3f} {line}" for at_ms, line in sorted(self._lines)
        ]


async def play_in_wan(
    scenario: Scenario, seed: int, *, servers: Path = SERVERS, keep: Path | None = None
) -> PlayedScenario:
    """Plays a scenario with real processes, all of which are dead behind it.

    ``servers``: where toxiproxy and etcd are looked for besides PATH. ``keep``: the folder that is
    left behind with all logs; else a temporary one. Raises ConfigurationError when a server is not
    on this machine. What breaks the run is in ``broke``.
    """
    began = time.monotonic()
    # gRPC would complain of every process that is started while a channel is open.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    folder = keep or Path(tempfile.mkdtemp(prefix="rhumbline-lab-"))
    folder.mkdir(parents=True, exist_ok=True)
    play = PlayedScenario(scenario, WAN, seed, history_of([], []))
    cluster = WanCluster(scenario, folder, servers)
    run = WanRun(scenario, seed, cluster, play)
    try:
        await cluster.start()
        await run.play()
    except NotAliveError as error:
        play.broke = f"not alive after the faults: {error}"
    except RhumblineError as error:
        play.broke = f"{type(error).__name__}: {error}"
    finally:
        cluster.aclose()
        run.finish()
        play.wan = _words_of(cluster)
        play.real_s = time.monotonic() - began
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return play


def _words_of(cluster: WanCluster) -> str:
    words = [
        f"{len(cluster.toxiproxy.links)} toxiproxy links, one by (region, server); half of each "
        "round trip in each direction"
    ]
    words.append(_STORES[cluster.scenario.topology.metadata])
    if cluster.scenario.workload.through_proxies:
        words.append("proxies advertise one address: the delay to them is by destination")
    full = [one for one in cluster.scenario.fault if one.kind == "full-disk"]
    if full:
        small = all(cluster.bookie(one.target).is_small for one in full)
        words.append(
            "the full disk is a small tmpfs that is filled"
            if small
            else "the disk only counts as full, by a setting: no file system could be mounted"
        )
    return "; ".join(words)
