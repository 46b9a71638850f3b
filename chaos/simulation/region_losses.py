"""``-m rhumbline.chaos.simulation.region_losses``: compares the planner with simulated losses.

For each quorum of a grid and each set of lost regions, the planner's prediction is compared with a
run that tries to refute it. Before the loss all other regions are cut off from the writer, so that
the lost bookies acknowledge whatever they can alone. Then they are lost for good, and a writer in
another region takes over.
"""

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ...core.ledger.config import LedgerConfig
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.log.write.batch import Append
from ...core.protocol.errors import RhumblineError
from ...core.protocol.quorum import Quorum, QuorumView
from ...core.protocol.recovery import Verdict
from ...core.protocol.start import EARLIEST
from ...placement.planner import Loss, after_loss
from ...placement.topology import Topology as PlannedTopology
from ..checker.history import TOKEN, token_of
from .cluster import STREAM, SimCluster, SimClusterSettings
from .world.sim_world import SimHost, SimTopology, SimWorld

PAGE = Path("docs/reference/region-loss-table.md")
BOOKIES_EACH = 2
TAKE_OVER_S_MAX = 40.0
_ALONE_S = 1.5
_EXPIRED_S = 8.0
_STRIPED_ATTEMPTS = 20
_APPENDS = 10


class Setting(NamedTuple):
    """A number of regions with two bookies each, and a quorum.

    The text of a setting seeds its run: the names of the class and its fields must not change.
    """

    regions: int
    quorum: Quorum


GRID = (
    Setting(2, Quorum(2, 2, 2, 2)),
    Setting(2, Quorum(3, 3, 2, 1)),
    Setting(3, Quorum(3, 3, 2, 1)),
    Setting(3, Quorum(3, 3, 2, 2)),
    Setting(3, Quorum(3, 3, 3, 3)),
    Setting(3, Quorum(4, 4, 2, 2)),
    Setting(3, Quorum(4, 3, 2, 2)),
    Setting(3, Quorum(5, 5, 3, 2)),
    Setting(3, Quorum(6, 3, 2, 2)),
    Setting(4, Quorum(4, 4, 3, 2)),
    Setting(4, Quorum(4, 4, 3, 3)),
    Setting(5, Quorum(5, 3, 2, 2)),
    Setting(5, Quorum(5, 5, 3, 2)),
    Setting(5, Quorum(5, 5, 3, 3)),
    Setting(5, Quorum(5, 5, 4, 4)),
)


class LossOutcome(NamedTuple):
    """The effect of a loss on a stream, predicted or simulated."""

    data_survives: bool
    end_decidable: bool
    writes_resume: bool


@dataclass(frozen=True, slots=True)
class Case:
    """One set of lost regions under one setting."""

    setting: Setting
    lost: tuple[str, ...]
    predicted: LossOutcome
    simulated: LossOutcome

    @property
    def agrees(self) -> bool:
        """True if the prediction equals the simulated outcome."""
        return self.predicted == self.simulated


def cases_of(setting: Setting) -> list[tuple[str, ...]]:
    """Return every set of lost regions that is neither empty nor complete."""
    names = "abcde"[: setting.regions]
    return [lost for k in range(1, setting.regions) for lost in combinations(names, k)]


def simulate(setting: Setting, lost: tuple[str, ...]) -> Case:
    """Run one case. A striped quorum is run several times and the worst outcome counts.

    With striping it depends on the entry in flight whether the lost bookies can acknowledge it.
    """
    quorum = setting.quorum
    attempts = _STRIPED_ATTEMPTS if quorum.ensemble_size > quorum.write_quorum else 1
    case = _simulate(setting, lost, 0)
    for attempt in range(1, attempts):
        if case.agrees:
            break
        again = _simulate(setting, lost, attempt).simulated
        worst = LossOutcome(*(a and b for a, b in zip(case.simulated, again, strict=True)))
        case = replace(case, simulated=worst)
    return case


def _simulate(setting: Setting, lost: tuple[str, ...], attempt: int) -> Case:
    names = tuple("abcde"[: setting.regions])
    delays = tuple((x, y, 5.0) for x, y in combinations(names, 2))
    with SimWorld(f"{setting} {lost} {attempt}", SimTopology(names, delays)) as world:
        run = _Run(world, setting, lost)
        return world.run(run.play(), time_limit_s=600.0)


class _Run:
    """One run of a case."""

    def __init__(self, world: SimWorld, setting: Setting, lost: tuple[str, ...]) -> None:
        self.world = world
        self.setting = setting
        self.lost = lost
        self.rest = tuple(name for name in world.topology.regions if name not in lost)
        settings = SimClusterSettings(
            policy=StreamPolicy(
                quorum=setting.quorum, flush=FlushPolicy(period_ms=0, bytes_max=100)
            ),
            ledger=LedgerConfig(
                connect_timeout_ms=300,
                request_timeout_ms=500,
                replacement_wait_ms_max=3_000,
                recovery_timeout_ms=8_000,
                metadata_timeout_ms=8_000,
                underreplicated_ms_max=3_600_000,
            ),
        )
        self.cluster = SimCluster(world, settings, [BOOKIES_EACH] * setting.regions)
        self.acked: dict[bytes, None] = {}
        self.called = 0

    async def play(self) -> Case:
        """Write, cut off the other regions, lose the regions of the case, then take over."""
        world, cluster = self.world, self.cluster
        await cluster.bootstrap()
        writer = world.hosts[f"app-{self.lost[0]}"]
        writer.start(_idle)
        writer.spawn(self._write(writer), "write")
        await asyncio.sleep(2.0 + world.random.random())
        world.metadata.health.is_down = True
        for region in self.rest:
            for other in self.lost:
                world.network.cut(region, other)
                world.network.cut(other, region)
        await asyncio.sleep(_ALONE_S)
        for host in world.hosts_in(self.lost):
            if host.is_running:
                host.power_off()
        world.metadata.health.is_down = False
        await asyncio.sleep(_EXPIRED_S)
        predicted = self._predicted()
        successor = world.hosts[f"app-{self.rest[-1]}"]
        successor.start(_idle)
        resumes = False
        try:
            async with asyncio.timeout(TAKE_OVER_S_MAX):
                resumes = await successor.spawn(self._take_over(successor), "take over")
        except (TimeoutError, RhumblineError) as error:
            world.trace.note("successor", f"cannot write: {type(error).__name__}: {error}")
        decided = any(e.verdict is Verdict.COMPLETE for e in cluster.evidence)
        simulated = LossOutcome(self._survives(), decided, resumes)
        return Case(self.setting, self.lost, predicted, simulated)

    async def _write(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            writer = await client.namespace.open_writer(STREAM)
            while True:
                token = token_of(1, self.called)
                self.called += 1
                host.spawn(self._record_ack(writer.append(token + b"." * 80), token), "record ack")
                await asyncio.sleep(0.02)

    async def _record_ack(self, append: Append, token: bytes) -> None:
        try:
            await append
        except RhumblineError:
            return
        self.acked[token] = None

    async def _take_over(self, host: SimHost) -> bool:
        """Return True once new appends succeed and every acknowledged record is read."""
        async with self.cluster.client(host) as client:
            while True:
                try:
                    writer = await client.namespace.open_writer(STREAM)
                    break
                except RhumblineError as error:
                    self.world.trace.note("successor", f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.5)
            for number in range(_APPENDS):
                await writer.append(token_of(2, number))
                self.acked[token_of(2, number)] = None
            await writer.close()
            reader = await client.namespace.open_reader(STREAM, EARLIEST)
            missing = dict(self.acked)
            while missing:
                batch = await reader.next_batch()
                assert batch is not None
                for record in batch.records():
                    found = TOKEN.match(record.payload)
                    assert found is not None
                    missing.pop(found.group(), None)
            await reader.aclose()
            return True

    def _survives(self) -> bool:
        """True if every acknowledged record is on a surviving disk."""
        left = {
            self.cluster.bookie_ids[h.name]
            for h in self.cluster.bookie_hosts
            if h.region in self.rest
        }
        return all(left & set(self.cluster.durable.get(token, ())) for token in self.acked)

    def _predicted(self) -> LossOutcome:
        """Return the planner's prediction for the ensemble that the writer used."""
        [ledger] = self.cluster.ledgers_now()
        regions = [self.cluster.regions[b] for b in ledger.last_fragment.bookies]
        topology = PlannedTopology(dict.fromkeys(self.world.topology.regions, BOOKIES_EACH), None)
        loss: Loss = after_loss(topology, QuorumView(self.setting.quorum, regions), self.lost)
        voters = topology.voters()
        has_store = len([v for v in voters if v not in self.lost]) * 2 > len(voters)
        return LossOutcome(loss.data_survives, loss.end_decidable and has_store, loss.writes_resume)


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()


# --- the page -----------------------------------------------------------------------------------


def page(cases: Sequence[Case]) -> str:
    """Return the table as a Markdown page."""
    lines = [
        "# What survives the loss of regions",
        "",
        "Generated by `python -m rhumbline.chaos.simulation.region_losses`; do not edit.",
        "",
        "Every region has two bookies and a member of the metadata store. The regions in the",
        "second column are lost at once and for good. Each cell is the planner's prediction; the",
        "simulated run of the production code agreed, unless the cell says otherwise.",
        "",
        "The run creates the worst case: before the loss the writer is in a lost region that is",
        "cut off from all others, so that the lost regions acknowledge whatever they can alone.",
        "*End known*: a new writer can decide where the stream ends, and reaches the metadata",
        "store. *Writes resume*: a writer in another region appends again, and everything that was",
        "acknowledged is still readable.",
        "",
        "| regions, E/WQ/AQ/R | lost | data survives | end known | writes resume |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(case) for case in cases]
    wrong = [case for case in cases if not case.agrees]
    lines += ["", f"{len(cases)} runs; the planner and the simulator disagree in {len(wrong)}."]
    return "\n".join(lines) + "\n"


def _row(case: Case) -> str:
    cells = [
        _yes(predicted) if predicted == simulated else f"{_yes(predicted)}, but {_yes(simulated)}"
        for predicted, simulated in zip(case.predicted, case.simulated, strict=True)
    ]
    setting = f"{case.setting.regions}, {case.setting.quorum}"
    return f"| {setting} | {', '.join(case.lost)} | {' | '.join(cells)} |"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def run_grid(grid: Iterable[Setting]) -> list[Case]:
    """Simulate every case of every setting."""
    return [simulate(setting, lost) for setting in grid for lost in cases_of(setting)]


def main() -> int:
    """Write the page. Returns 0 if prediction and simulation agree everywhere, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?", default=PAGE)
    cases = run_grid(GRID)
    parser.parse_args().page.write_text(page(cases))
    wrong = [case for case in cases if not case.agrees]
    for case in wrong:
        print(f"{_row(case)}")
    print(f"{len(cases)} runs, {len(wrong)} disagree")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
