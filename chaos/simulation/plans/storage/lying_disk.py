"""The plan ``lying-disk``: one of three bookies has a disk that confirms syncs it did not do.

The bookie loses power right after another component relied on its answer. There are two variants,
with times drawn at random. In the first a fence is lost: a second writer takes over while the first
is stopped; the bookie is fenced, loses power and with it the fence; then the first writer continues
with only this bookie and one that the second writer cannot reach. In the second an entry is lost:
only this bookie and one other have the last entries; this bookie loses them, the other one cannot
be reached by the writer that takes over, and the third never had them (bugs B15 and B16).

The string "liar" seeds the generator, so it is part of a seed's identity.
"""

from dataclasses import replace
from random import Random

from .....core.log.policy import FlushPolicy
from .....core.protocol.quorum import Quorum
from ...cluster import Fault
from ...seed_run import RunPlan
from ..races import LASTS_MS, REGIONS, races


def lying_disk(seed: int) -> RunPlan:
    """Return a plan in which invariants break if the code trusts such a disk."""
    random = Random(f"{seed} liar")
    plan = races(seed)
    settings = plan.settings
    bookies = [f"bookie-{region}-0" for region in REGIONS]
    random.shuffle(bookies)
    first, second = random.sample([f"app-{region}" for region in REGIONS], 2)
    at_ms = random.randint(800, 3_000)
    variant = _lost_fence if random.random() < 0.5 else _lost_entry
    faults = variant(random, at_ms, bookies, first, second)
    faults.append(Fault("late-watches", "metadata", 0, LASTS_MS, 8_000))
    return replace(
        plan,
        seed=f"{seed} liar",
        bookies_by_region=(1, 1, 1),
        settings=replace(
            settings,
            policy=replace(
                settings.policy,
                quorum=Quorum(3, 3, 2, random.choice((1, 2))),
                flush=FlushPolicy(period_ms=0, bytes_max=100),
                roll_bytes=512 << 20,
            ),
            ledger=replace(
                settings.ledger,
                change_mode="delayed",
                on_bookie_failure="replace",
                request_timeout_ms=random.choice((1_000, 3_000)),
                quorum_timeout_ms=0,
            ),
        ),
        habits=replace(
            plan.habits, pause_ms=30, awaits_each_burst=False, stops_when_replaced=False
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        writers=((0, first), (at_ms, second)),
        appends_max=600,
    )


def _between(random: Random, source: str, target: str, at_ms: int) -> list[Fault]:
    """Return faults that cut the paths between two hosts in both directions for a while."""
    lasts_ms = random.randint(1_500, 3_000)
    return [
        Fault("cut-one-way", f"{source}>{target}", at_ms, lasts_ms),
        Fault("cut-one-way", f"{target}>{source}", at_ms, lasts_ms),
    ]


def _lost_fence(
    random: Random, at_ms: int, bookies: list[str], first: str, second: str
) -> list[Fault]:
    lying, honest, unreachable = bookies
    power_ms = at_ms + random.randint(100, 500)
    stopped_ms = at_ms - random.randint(1, 20)
    return [
        Fault("lying-disk", lying, at_ms - random.randint(0, 500), 4_000),
        Fault("pause", first, stopped_ms, power_ms - stopped_ms + random.randint(50, 800)),
        Fault("lag", f"{honest}>{first}", at_ms - 100, 4_000, random.choice((1_500, 5_000))),
        *_between(random, second, unreachable, at_ms - 50),
        Fault("power", lying, power_ms, random.choice((10, 100))),
    ]


def _lost_entry(
    random: Random, at_ms: int, bookies: list[str], first: str, second: str
) -> list[Fault]:
    lying, other, unreachable = bookies
    power_ms = at_ms - random.randint(-50, 50)
    return [
        Fault("lying-disk", lying, at_ms - random.randint(100, 700), 4_000),
        *_between(random, first, other, at_ms - random.randint(50, 300)),
        *_between(random, second, unreachable, at_ms - 50),
        Fault("power", lying, power_ms, random.choice((10, 100))),
        Fault("pause", first, power_ms, random.randint(0, 500)),
    ]
