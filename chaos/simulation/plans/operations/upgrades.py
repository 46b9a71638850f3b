"""The plan ``upgrades``: processes of two versions in one cluster, rolled up and down under faults.

Bookies, repair processes and applications are replaced one at a time by the newer program, in some
seeds back by the older one, and by the newer one again. An operator tries repeatedly to raise
the feature level, and the command is killed in some seeds. From the level on, the newer program
stores values that the older one cannot read. In a quarter of the seeds the older program is one
from before feature levels. Invariants G50 to G52 judge the levels, and all others the data.
"""

from dataclasses import replace
from functools import partial
from random import Random

from ...cluster import Fault, bookie_hosts
from ...repair import repair_host
from ...seed_run import RunPlan
from ...upgrade.upgrade_run import UpgradeRun
from ..swarm import REGIONS, swarm

LASTS_MS = 28_000
_ROLLS_FROM_MS, _ROLLS_TO_MS = 500, 10_000
_RAISES_FROM_MS = 4_000

_PHASES = ((1,), (1,), (1, 0, 1), (1, 0, 1), (1, 0))
"""The versions to which processes are rolled, one phase after the other: 1 is the newer one."""


def upgrades(seed: int) -> RunPlan:
    """Return a plan of ``swarm``, in 28 s, with two versions."""
    random = Random(f"{seed} upgrades")
    plan = swarm(seed)
    hosts = [
        *bookie_hosts(REGIONS, plan.bookies_by_region),
        *map(repair_host, plan.repairs),
        *(f"app-{region}" for region in REGIONS),
    ]
    faults = [*plan.faults, *_rolls(random, hosts), *_raises(random), *_mistakes(random, hosts)]
    older = random.choice(("today", "today", "today", "first"))
    end = random.choice(("new", "new", "old", "mixed"))
    return replace(
        plan,
        seed=f"{seed} upgrades",
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        habits=replace(plan.habits, pause_ms=random.choice((50, 200))),
        lasts_ms=LASTS_MS,
        appends_max=1_000,
        run=partial(UpgradeRun, older=older, end=end),
    )


def _rolls(random: Random, hosts: list[str]) -> list[Fault]:
    """Return the replacements of processes, phase after phase."""
    phases = random.choice(_PHASES)
    length_ms = (_ROLLS_TO_MS - _ROLLS_FROM_MS) // len(phases)
    rolls = []
    for phase, version in enumerate(phases):
        share = 1.0 if phase == len(phases) - 1 else random.choice((0.3, 0.7, 1.0))
        rolled = [host for host in hosts if random.random() <= share]
        if random.random() < 0.5:
            random.shuffle(rolled)
        step_ms = length_ms / max(len(rolled), 1)
        for number, host in enumerate(rolled):
            at_ms = _ROLLS_FROM_MS + phase * length_ms + int((number + random.random()) * step_ms)
            rolls.append(Fault("roll", host, at_ms, random.choice((100, 1_000)), version))
    return rolls


def _mistakes(random: Random, hosts: list[str]) -> list[Fault]:
    """Return late returns to the older program, each of which is noticed and undone.

    Where the level was raised before, the older program must refuse to begin.
    """
    mistakes = []
    for host in random.sample(hosts, random.choice((0, 1, 3))):
        at_ms = random.randint(_ROLLS_TO_MS, LASTS_MS - 4_000)
        mistakes.append(Fault("roll", host, at_ms, 100, 0))
        mistakes.append(Fault("roll", host, at_ms + random.randint(500, 3_000), 100, 1))
    return mistakes


def _raises(random: Random) -> list[Fault]:
    """Return the commands to raise the level. Some are killed after a few milliseconds."""
    return [
        Fault(
            "raise-level",
            "cluster",
            random.randint(_RAISES_FROM_MS, LASTS_MS),
            value=random.choice((0, 0, 0, 20, 100, 300)),
        )
        for _ in range(random.choice((4, 10, 20)))
    ]
