"""The plan ``recoveries``: long ledger tails are recovered while bookies fail, and fences are kept.

Many entries are in flight when another writer takes over, because the first one hears nothing any
more. The recovery then writes many entries again, to quorums that need nearly every bookie, while
disks are slow or nearly full: a bookie of the recovery's ensemble is late with one entry, is
replaced, and then fails or confirms another one. Every second recovery runs beside the metadata
store and far from the bookies, so that it closes the ledger soon after the last answer. Log files
are tiny, so that bookies begin new ones all the time, and several recoveries of one ledger fence it
at the same time.

At the end each bookie is restarted and sent an add to each ledger that it has fenced. It must
refuse the add (invariant L9).
"""

import asyncio
from dataclasses import replace
from random import Random

from ....core.bookie.config import KIB
from ....core.log.policy import FlushPolicy
from ....core.protocol.quorum import Quorum
from ..cluster import PORT, Fault, bookie_hosts, until
from ..entry_probe import send_adds_behind_fences
from ..faults.faults import TRIGGERED
from ..seed_run import RunPlan, SeedRun
from ..world.sim_world import SimHost
from .races import LASTS_MS, REGIONS, races

_SHAPES = (
    # quorum, bookies by region
    (Quorum(2, 2, 2, 1), (2, 2, 1)),
    (Quorum(2, 2, 2, 2), (2, 2, 2)),
    (Quorum(3, 3, 3, 2), (2, 2, 2)),
    (Quorum(3, 3, 3, 2), (3, 3, 3)),
    (Quorum(3, 3, 3, 3), (3, 3, 3)),
    (Quorum(4, 3, 3, 2), (3, 3, 3)),  # striped
    (Quorum(3, 2, 2, 1), (2, 2, 2)),  # striped
    (Quorum(3, 3, 2, 2), (2, 2, 2)),
)


def recoveries(seed: int) -> RunPlan:
    """Return a plan with takeovers of writers that have many entries in flight."""
    random = Random(f"{seed} recoveries")
    plan = races(seed)
    settings = plan.settings
    quorum, bookies_by_region = random.choice(_SHAPES)
    bookies = bookie_hosts(REGIONS, bookies_by_region)
    apps = [f"app-{region}" for region in REGIONS]
    home, writer, _ = random.sample(apps, 3)  # the metadata store is at home
    writers, faults = [(0, writer)], []
    at_ms = 0
    while True:
        at_ms += random.randint(700, 2_000)
        if at_ms >= LASTS_MS:
            break
        faults += _unheard(random, writer, at_ms)
        writer = home if writer != home else random.choice([app for app in apps if app != home])
        writers.append((at_ms, writer))
        faults += _during_a_recovery(random, bookies, at_ms)
        if random.random() < 0.4:  # another recovery of the same ledger
            rival = random.choice([app for app in apps if app != writer])
            writers.append((at_ms + random.choice((20, 150)), rival))
            writer = rival
    faults += [fault for fault in plan.faults if fault.kind == TRIGGERED and random.random() < 0.2]
    topology = replace(plan.topology, metadata_regions=(home.removeprefix("app-"),))
    if random.random() < 0.7:  # many answers are on their way when an ensemble changes
        delays_ms = zip(topology.delays_ms, (15, 25, 35), strict=True)
        topology = replace(topology, delays_ms=tuple((a, b, ms) for (a, b, _), ms in delays_ms))
    return replace(
        plan,
        seed=f"{seed} recoveries",
        topology=topology,
        bookies_by_region=bookies_by_region,
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                quorum=quorum,
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                roll_bytes=512 << 20,
            ),
            ledger=replace(
                settings.ledger,
                request_timeout_ms=random.choice((100, 200)),
                recovery_window=random.choice((8, 32)),
                failure_memory_ms=random.choice((0, 500)),
            ),
            writer=replace(settings.writer, entries_in_flight_max=64),
            log_file_bytes=4 * KIB,
            tail_cache_bytes=64 * KIB,
        ),
        habits=replace(
            plan.habits,
            pause_ms=random.choice((30, 80)),
            burst_max=4,
            padding_bytes_max=random.choice((200, 1_500)),
            awaits_each_burst=False,
            stops_when_replaced=False,
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=tuple(sorted(writers)),
        appends_max=1_200,
        run=RecoveriesRun,
    )


def _unheard(random: Random, writer: str, at_ms: int) -> list[Fault]:
    """Return a fault by which a writer has entries in flight when another one takes over."""
    before_ms = random.choice((30, 150))
    kind = random.choice(("deafen", "deafen", "isolate", "pause"))
    if kind == "pause":
        before_ms = random.choice((1, 10))
    return [Fault(kind, writer, at_ms - before_ms, before_ms + random.choice((50, 300, 1_500)))]


def _during_a_recovery(random: Random, bookies: list[str], at_ms: int) -> list[Fault]:
    faults: list[Fault] = []
    for bookie in random.sample(bookies, random.randint(1, 3)):
        start_ms = at_ms + random.randint(-20, 120)
        factor = random.choice((60, 200, 500, 1_000))
        faults.append(Fault("slow-disk", bookie, start_ms, random.choice((300, 1_000)), factor))
        if random.random() < 0.3:
            room = random.choice((200, 1_000, 4_000))
            start_ms = at_ms + random.randint(0, 150)
            faults.append(Fault("full-disk", bookie, start_ms, random.choice((30, 300)), room))
        if random.random() < 0.2:
            restart = random.choice(("kill", "power"))
            start_ms = at_ms + random.randint(0, 300)
            faults.append(Fault(restart, bookie, start_ms, random.choice((20, 200))))
        if random.random() < 0.2:
            start_ms = at_ms + random.randint(0, 150)
            faults.append(Fault("pause", bookie, start_ms, random.choice((60, 120, 250))))
    return faults


class RecoveriesRun(SeedRun):
    """A run that ends with adds to all fenced ledgers, after a restart of every bookie."""

    async def _verify_end_state(self) -> None:
        await super()._verify_end_state()
        random = self.world.random_of("restarts")
        for host in self.cluster.bookie_hosts:
            self.cluster.bookies.pop(host.name, None)
            if random.random() < 0.5:
                host.kill()
            else:
                host.power_off()
            host.start_again()
        asking = self.cluster.app_hosts[0]
        await self._run_within_bound("V9", asking, "adding behind fences", self._add_behind_fences)

    async def _add_behind_fences(self, host: SimHost) -> None:
        await until(lambda: len(self.cluster.bookies) == len(self.cluster.bookie_hosts))
        await asyncio.sleep(1.0)  # they register
        stored = {metadata.ledger_id: metadata for metadata in self.cluster.ledgers_now()}
        deleted = self._deleted_ledgers()  # with their fences
        fences = [key for key in self.answer_recorder.observed.fences if key[1] not in deleted]
        for bookie in self.cluster.bookie_hosts:
            bookie_id = self.cluster.bookie_ids[bookie.name]
            fenced = [stored[ledger] for name, ledger in fences if name == bookie_id]
            await send_adds_behind_fences((bookie.name, PORT), fenced)
