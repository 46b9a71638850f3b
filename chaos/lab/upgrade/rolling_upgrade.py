"""Upgrades a cluster under load, goes back to the old version, and upgrades it for good."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ....client.connect import connect
from ....client.system_runtime import run
from ....core.metadata.feature_levels import KNOWN_LEVELS
from .load import RESTART, AppendGap, NumberLoad, StepLog, longest_gap
from .program_version import ProgramVersion
from .rolling_cluster import REGIONS, RollingCluster, rolling_cluster

DIRECT, PROXIED = STREAMS = ("direct", "proxied")
_READ_S_MAX = 120.0


@dataclass
class StreamAudit:
    """A comparison of the numbers that were acknowledged with those that the stream holds."""

    acknowledged: int
    lost: int
    doubled: int
    is_ordered: bool
    gap: AppendGap
    """The longest one while servers changed."""
    restart_gap: AppendGap
    """The longest one while the application itself was restarted."""


@dataclass
class UpgradeResult:
    """The outcome of a rolling upgrade and downgrade."""

    audits: dict[str, StreamAudit] = field(default_factory=dict)
    has_new_level: bool = True
    """True if the old version does not know the newest level of the new one."""
    steps: list[tuple[str, float]] = field(default_factory=list)
    """Each step with its seconds."""
    level_commands: list[tuple[str, int, str]] = field(default_factory=list)
    """Each attempt to raise the level: when, its exit code and the last line that it printed."""

    @property
    def faults(self) -> list[str]:
        """The differences from a correct run, in words."""
        found = [
            f"{name}: {audit.lost} lost, {audit.doubled} doubled"
            for name, audit in self.audits.items()
            if audit.lost or audit.doubled or not audit.is_ordered or not audit.acknowledged
        ]
        early = self.level_commands[:-1] if self.has_new_level else []
        found += [f"the level was raised {when}" for when, code, _ in early if code == 0]
        if not self.level_commands or self.level_commands[-1][1]:
            found.append("the level was not raised in the end")
        return found

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        known = "does not know" if self.has_new_level else "knows"
        return [
            f"the old version {known} the newest feature level of the new one",
            *(f"{step:<42} {seconds:6.1f} s" for step, seconds in self.steps),
            *(
                f"cluster features --raise, {when}: exit code {code}: {text}"
                for when, code, text in self.level_commands
            ),
            *(
                f"{name}: {audit.acknowledged} acknowledged, {audit.lost} lost, {audit.doubled} "
                f"doubled; longest gap {audit.gap.ms:.0f} ms ({audit.gap.step}), "
                f"{audit.restart_gap.ms:.0f} ms when the application itself was restarted"
                for name, audit in self.audits.items()
            ),
        ]


class RollingUpgrade:
    """The steps of the guide (docs/how-to/upgrade.md), with a load that must not notice them."""

    def __init__(
        self, folder: Path, old: ProgramVersion, new: ProgramVersion, pause_s: float
    ) -> None:
        self._folder, self._old, self._new = folder, old, new
        self._pause_s = pause_s
        self._steps = StepLog()
        is_new = old.newest_level() < KNOWN_LEVELS.newest
        self._result = UpgradeResult(has_new_level=is_new)

    def run(self) -> UpgradeResult:
        """Run all steps and audit the streams. Raises UnavailableError if a process fails."""
        with ExitStack() as closing:
            cluster = closing.enter_context(rolling_cluster(self._folder, self._old, STREAMS))
            loads = [
                NumberLoad(self._folder, self._old, uri, REGIONS[0], stream)
                for stream, uri in ((DIRECT, cluster.metadata), (PROXIED, cluster.proxy_uri))
            ]
            for load in loads:
                closing.enter_context(load)
            self._step(f"all processes run {self._old.name}", loads)
            self._change_all(cluster, loads, self._new)
            self._change_all(cluster, loads, self._old)
            self._change_all(cluster, loads, self._new)
            self._raise(cluster, "after the upgrade")
            self._step("after the level was raised", loads)
            for load in loads:
                load.stop()
            self._end_step()
            for load in loads:
                self._result.audits[load.stream] = self._audit(cluster, load)
        return self._result

    def _change_all(
        self, cluster: RollingCluster, loads: list[NumberLoad], version: ProgramVersion
    ) -> None:
        servers = cluster.servers
        for number, server in enumerate(servers, 1):
            self._step(f"{number}/{len(servers)} {server.name} -> {version.name}", loads)
            server.change(version)
            if number == len(servers) // 2 and version is self._new:
                self._raise(cluster, f"with {number} of {len(servers)} servers upgraded")
        for load in loads:
            self._step(f"{RESTART} {load.stream} -> {version.name}", loads)
            load.stop()
            load.version = version
            load.start()

    def _step(self, name: str, loads: list[NumberLoad]) -> None:
        self._end_step()
        self._steps.begin(name)
        time.sleep(self._pause_s)
        for load in loads:
            load.check_running()

    def _end_step(self) -> None:
        if self._steps.steps:
            begun, name = self._steps.steps[-1]
            self._result.steps.append((name, time.time() - begun))

    def _raise(self, cluster: RollingCluster, when: str) -> None:
        level = str(KNOWN_LEVELS.newest)
        code, output = cluster.command(self._new, "cluster", "features", "--raise", level)
        lines = output.splitlines() or [""]
        self._result.level_commands.append((when, code, lines[-1] if code else lines[0]))

    def _audit(self, cluster: RollingCluster, load: NumberLoad) -> StreamAudit:
        acknowledged = load.acknowledged()
        wanted = [one.number for one in acknowledged]
        found = run(_read(cluster.metadata, load.stream, wanted[-1] if wanted else -1))
        counts = Counter(found)
        return StreamAudit(
            len(wanted),
            len(set(wanted) - set(found)),
            sum(count - 1 for count in counts.values()),
            found == sorted(found),
            longest_gap(acknowledged, self._steps, of_restarts=False),
            longest_gap(acknowledged, self._steps, of_restarts=True),
        )


async def _read(metadata: str, stream: str, last: int) -> list[int]:
    """Return all numbers of a stream up to ``last``. Raises TimeoutError."""
    found: list[int] = []
    async with (
        asyncio.timeout(_READ_S_MAX),
        connect(metadata, region=REGIONS[0]) as client,
        client.reader(stream) as reader,
    ):
        while last >= 0 and (not found or found[-1] < last):
            found.append(int((await anext(reader)).payload))
    return found


def roll(
    folder: Path, old: str, new: str, pause_s: float, old_packages: Sequence[Path] = ()
) -> UpgradeResult:
    """Install both versions below ``folder`` and run the upgrade. Raises ConfigurationError."""
    before = ProgramVersion(old, folder / "old", old_packages)
    after = ProgramVersion(new, folder / "new")
    for version in (before, after):
        version.install()
    cluster = folder / "cluster"
    cluster.mkdir()
    return RollingUpgrade(cluster, before, after, pause_s).run()
