"""A scripted game day: ``python -m rhumbline.chaos.lab.game_day.game_day``, or ``make game-day``.

Three regions of real processes, each with two bookies, a write proxy, a repair process and a member
of etcd, serve a moderate load. One after the other a disk is lost, the owner of an idle stream, a
region; a disk is filled, and a region is drained. A real Prometheus evaluates the alert rules of
``deploy/prometheus``, with shorter times. The transcript shows each command with its output, the
alerts that fire and clear, and what ``rhumbline doctor`` says.

A step ends when ``doctor`` is as green as before the first step and no alert fires. The exit code
is 1 if a step does not end, or if an acknowledged record was lost or is stored twice.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ....client.system_runtime import run
from ....core.protocol.errors import RhumblineError, UnavailableError
from ....core.runtime.tasks import Tasks
from ....regions.repair.config import RepairConfig
from ...managed_process import ManagedProcess, python_command
from ..dashboards.dashboard_picture import Mark
from ..dashboards.draw_all import draw_all
from ..dashboards.panel_series import PrometheusRange
from ..wan.cluster import SERVERS
from .day_report import StepResult, draw_day, step_table
from .idle_owner import IDLE_STREAM, IdleOwner
from .load import READY
from .on_call import OnCall, StepFailedError
from .prometheus import Prometheus, scaled_rules
from .records import Outcomes, judge_records, parse_outcomes
from .regional_cluster import REGIONS, RegionalCluster
from .small_disk import SmallDisk
from .steps import OLD_STREAM, SHORT, SMALL_DISK_BYTES, STEPS, GameWorld
from .transcript import Transcript

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "alerts.yml"
STREAMS = dict(zip(("orders", "payments", "visits"), REGIONS, strict=True))
"""The streams that are written all the time, with their home regions."""

GRACE_MS = RepairConfig().ownerless_grace_ms
"""Time after which the writer of an idle stream counts as gone: as in a real cluster."""
RATE_S = 10
"""Range of rates in the pictures of the dashboards: a few scrapes."""
_SETTLE_S = 12.0
"""Time without a change of alerts before the first step."""


class GameDay:
    """One game day, with its processes and results. Files stay in ``folder``."""

    def __init__(
        self,
        folder: Path,
        servers: Path,
        *,
        rules: str,
        metadata: str,
        scale: float,
        rate: float,
        grace_ms: int = GRACE_MS,
    ) -> None:
        self.folder = folder
        self.scale = scale
        self.transcript = Transcript(folder / "transcript.txt")
        self.cluster = RegionalCluster(
            folder, servers, metadata=metadata, scale=scale, grace_ms=grace_ms
        )
        self.prometheus = Prometheus(servers, folder)
        self.on_call = OnCall(folder, self.prometheus, self.transcript)
        self.results: list[StepResult] = []
        self._rules = scaled_rules(rules, scale)
        self._rate = rate
        self._began = time.monotonic() - self.transcript.now_s()
        self._acks = folder / "outcomes.txt"
        self._closing = ExitStack()
        self._closing.callback(self.cluster.close)
        self._closing.callback(self.prometheus.stop)
        self._tasks = Tasks()
        self._load = ManagedProcess(
            "load",
            python_command(
                "chaos.lab.game_day.load", f"grpc://{','.join(self.cluster.proxies)}",
                str(rate), str(self._acks), *STREAMS,
            ),
            folder / "load.log",
            ready=READY,
            cwd=folder,
        )  # fmt: skip
        self._idle_owner = IdleOwner(folder, REGIONS[1])
        self._closing.callback(self._load.kill)
        self._closing.callback(self._idle_owner.process.kill)

    # --- start and end --------------------------------------------------------------------------

    async def start(self, *, needs_small_disk: bool) -> GameWorld:
        """Start the cluster, the load and Prometheus, and wait until nothing changes."""
        on_call, cluster = self.on_call, self.cluster
        self.transcript.title("three regions")
        disk = None
        if needs_small_disk:
            disk = SmallDisk(self.folder / "data" / GameWorld.full_bookie, SMALL_DISK_BYTES)
            self._closing.callback(disk.close)
        await cluster.start(cluster.stores())
        await on_call.must("cluster", "init", "--regions", ",".join(REGIONS))
        await on_call.must_all(
            (
                "bookie", "format", server.directory, "--name", server.name,
                "--region", server.region, "--rack", f"r{server.name[-1]}",
            )
            for server in cluster.bookies()
        )  # fmt: skip
        self.transcript.say("$ rhumbline bookie run ... &   # two in each region")
        await cluster.start(cluster.bookies())
        self.transcript.say("$ rhumbline write-proxy ... &; rhumbline repair run ... &")
        await cluster.start(s for s in cluster.servers.values() if not s.process.is_running)
        await on_call.must(
            "namespace", "create", "default", "--quorum", "3/3/2/2",
            "--roll-time", "30s", "--roll-bytes", "2MiB",
        )  # fmt: skip
        await on_call.must_all(
            [
                *(("stream", "create", stream) for stream in STREAMS),
                ("stream", "create", IDLE_STREAM, "--roll-time", "1h"),
                ("stream", "create", OLD_STREAM, "--quorum", "2/2/2/1", "--regions", REGIONS[0]),
            ]
        )
        await on_call.must_all(("stream", "home", *home) for home in STREAMS.items())
        self._idle_owner.process.launch()
        self.prometheus.start(self._rules, cluster.targets())
        await asyncio.to_thread(self._load.start)
        self.transcript.say(
            f"{self._rate:.0f} records per second are written to {', '.join(STREAMS)}"
        )
        self._tasks.spawn(on_call.watch_alerts(), "watch alerts")
        self._tasks.spawn(on_call.watch_doctor(), "watch doctor")
        await self._settle()
        lost_after_s = 300 / self.scale
        return GameWorld(cluster, on_call, self._idle_owner, disk, lost_after_s)

    async def _settle(self) -> None:
        """Wait until the alerts do not change and ``doctor`` has no fault."""
        on_call, before, since_s = self.on_call, -1, 0.0

        def is_settled() -> bool:
            nonlocal before, since_s
            changes = sum(1 + (span.cleared_s is not None) for span in on_call.alerts.spans)
            if changes != before:
                before, since_s = changes, self.transcript.now_s()
            is_quiet = self.transcript.now_s() - since_s > _SETTLE_S
            return is_quiet and bool(on_call.checks) and on_call.checks[-1].exit_code == 0

        await on_call.until(is_settled, "a cluster without faults", seconds_max=120.0)
        on_call.accept_present_state()

    async def close(self) -> None:
        """End all processes. Safe to repeat."""
        await self._tasks.aclose()
        await asyncio.to_thread(self._closing.close)

    # --- steps ----------------------------------------------------------------------------------

    async def play(self, world: GameWorld, name: str, *, seconds_max: float) -> StepResult:
        """Play one step to its end, or until it has failed."""
        on_call, step = self.on_call, STEPS[name]
        self.transcript.title(f"{name}: {step.__doc__}")
        result = StepResult(name, self.transcript.now_s())
        on_call.fault_s = on_call.acted_s = None
        try:
            async with asyncio.timeout(seconds_max):
                await step(world)
                await on_call.until_calm(seconds_max=seconds_max)
        except TimeoutError:
            result.failure = f"after {seconds_max:.0f} s still waiting for {on_call.waits_for}"
        except RhumblineError as error:
            result.failure = str(error)
        result.ended_s = self.transcript.now_s()
        self._note_doctor(result)
        result.fault_s, result.acted_s = on_call.fault_s, on_call.acted_s
        result.firings = on_call.alerts.since(result.began_s, result.ended_s)
        result.gap_s = self.outcomes().longest_gap_s(
            self._began + result.began_s, self._began + result.ended_s
        )
        self.results.append(result)
        if result.failure:
            self.transcript.say(f"THE STEP DID NOT END: {result.failure}")
            for span in on_call.alerts.firing():
                self.transcript.say(f"still firing: {span.alert.name} {span.alert.subject}")
            await self._show_state()
            await self._start_all()
        else:
            self.transcript.say(f"the step ended after {result.ended_s - result.began_s:.0f} s")
        return result

    async def _show_state(self) -> None:
        for command in (("doctor",), ("repair", "ls"), ("durability",)):
            try:
                await self.on_call.run(*command)
            except StepFailedError as error:
                self.transcript.say(str(error))

    async def _start_all(self) -> None:
        """Start what a step that failed has left behind, for the next one."""
        stopped = [s for s in self.cluster.servers.values() if not s.process.is_running]
        try:
            await self.cluster.start(stopped)
        except UnavailableError as error:
            self.transcript.say(str(error))

    def _note_doctor(self, result: StepResult) -> None:
        on_call = self.on_call
        checks = [check for check in on_call.checks if check.ended_s >= result.began_s]
        red = [check for check in checks if not on_call.is_green(check)]
        if red:
            result.red_s = red[0].ended_s
            after = [check.ended_s for check in checks if check.ended_s > red[-1].ended_s]
            result.green_s = after[0] if after else None

    # --- records --------------------------------------------------------------------------------

    def outcomes(self) -> Outcomes:
        """Return what the applications were told so far."""
        with self._acks.open() as file:
            return parse_outcomes(file)

    async def verify(self) -> list[str]:
        """Stop the load, read all streams, and return what is wrong with their records."""
        self._load.kill()
        outcomes = self.outcomes()
        acked = {**outcomes.acked, IDLE_STREAM: list(range(self._idle_owner.written))}
        faults = [f"nothing was written to {stream}" for stream in STREAMS if stream not in acked]
        read: dict[str, list[int]] = {}
        for stream in acked:
            read[stream] = [int(line) for line in (await self._read_all(stream)).splitlines()]
        for stream, numbers in acked.items():
            self.transcript.say(
                f"{stream}: {len(numbers)} records acknowledged, {len(read[stream])} read"
            )
        return [*faults, *judge_records(acked, read)]

    def draw_dashboards(self, folder: Path) -> None:
        """Draw the dashboards from what Prometheus has stored since the first step."""
        first = self.results[0].began_s
        ended_s = time.time()
        span_s = self.transcript.now_s() - first
        source = PrometheusRange(self.prometheus.address, ended_s - span_s, ended_s, RATE_S)
        marks = [Mark(step.began_s - first, step.name) for step in self.results]
        empty = draw_all(source, folder, marks)
        self.transcript.say(f"panels without data: {', '.join(empty) or 'none'}")

    async def _read_all(self, stream: str) -> str:
        self.transcript.say(f"$ rhumbline stream read {stream}")
        return await self.on_call.output_of("stream", "read", stream)


async def play_day(
    day: GameDay, names: Sequence[str], *, seconds_max: float, dashboards: Path | None = None
) -> list[str]:
    """Play steps, verify the records, print the results; return everything that went wrong.

    The dashboards are drawn into the folder ``dashboards``.
    """
    faults: list[str] = []
    try:
        world = await day.start(needs_small_disk="fill-disk" in names)
        for name in names:
            await day.play(world, name, seconds_max=seconds_max)
        day.transcript.title("are all records there?")
        faults = await day.verify()
        await day.on_call.run("durability", "--strict")
        if dashboards is not None:
            await asyncio.to_thread(day.draw_dashboards, dashboards)
    except RhumblineError as error:
        faults.append(str(error))
    finally:
        await day.close()
    faults += [f"{step.name}: {step.failure}" for step in day.results if step.failure]
    day.transcript.title("results (seconds since the fault)")
    day.transcript.table(step_table(day.results))
    day.transcript.table(f"\nfaults: {'; '.join(faults) or 'none'}")
    return faults


async def main() -> None:
    """Play the day, print the results and draw the alerts. SIGTERM ends it in order."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", nargs="*", choices=list(STEPS), help="only these steps")
    parser.add_argument("--short", action="store_true", help=f"only {' and '.join(SHORT)}")
    parser.add_argument("--scale", type=float, default=20.0, help="divides the times of the rules")
    parser.add_argument("--rate", type=float, default=200.0, help="records per second")
    parser.add_argument("--rules", type=Path, default=RULES, help="the alert rules")
    parser.add_argument("--metadata", choices=("etcd", "sqlite"), default="etcd")
    parser.add_argument("--servers", type=Path, default=SERVERS, help="the folder of servers")
    parser.add_argument("--step-seconds", type=float, default=300.0, help="limit of a step")
    parser.add_argument("--plot", type=Path, help="draw the alerts into this SVG file")
    parser.add_argument("--dashboards", type=Path, help="draw the dashboards into this folder")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rhumbline-game-day-"))
    day = GameDay(
        folder, given.servers, rules=given.rules.read_text(), metadata=given.metadata,
        scale=given.scale, rate=given.rate,
    )  # fmt: skip
    names = given.steps or (SHORT if given.short else list(STEPS))
    faults = await play_day(day, names, seconds_max=given.step_seconds, dashboards=given.dashboards)
    if given.plot is not None:
        given.plot.write_text(picture(day))
    print(f"files: {folder}")
    sys.exit(1 if faults else 0)


def picture(day: GameDay) -> str:
    """Return the picture of the day's alerts."""
    checks = [(check.ended_s, day.on_call.is_green(check)) for check in day.on_call.checks]
    return draw_day(day.results, day.on_call.alerts.spans, checks)


if __name__ == "__main__":
    run(main())
