"""The plan ``damage``: all files of bookies rot, are cut, lose pages or are lost, or are restored.

The plan is ``swarm`` or ``streams`` with small files, so that bookies have files of all kinds and
collect and compact while files are damaged. Only as many bookies are damaged as the quorum
survives: one if AQ is 2, two if it is 3. Each of them may be damaged several times, while it runs
and while it is down, and is restarted between and after the damages. For half of them bits of ids
in the index flip besides: few bits of a disk deny so many entries if they are believed.
"""

from dataclasses import replace
from random import Random

from ....core.bookie.config import KIB
from ..cluster import Fault, bookie_hosts
from ..faults.faults import DAMAGING
from ..seed_run import RunPlan
from .streams import streams
from .swarm import LASTS_MS, REGIONS, swarm

_STREAMS_SHARE = 0.25
_DAMAGES = ("rot-file", "truncate-file", "zero-page", "lose-file")
_INDEX_DAMAGES = ("rot-index",)
_INDEX_SHARE = 0.5
_DAMAGES_MAX = 4


def damage(seed: int) -> RunPlan:
    """Return a plan in which the files of as many bookies are damaged as the quorum survives."""
    random, of_index = Random(f"{seed} damage"), Random(f"{seed} damage of the index")
    plan = streams(seed) if random.random() < _STREAMS_SHARE else swarm(seed)
    settings = plan.settings
    victims = random.sample(bookies_of(plan), settings.policy.quorum.ack_quorum - 1)
    faults = [fault for fault in plan.faults if fault.kind not in DAMAGING]
    for victim in victims:
        if random.random() < 0.3:
            faults += _restore(random, victim)
        else:
            faults += _damages(random, victim, _DAMAGES)
        if of_index.random() < _INDEX_SHARE:
            faults += _damages(of_index, victim, _INDEX_DAMAGES)
    return replace(
        plan,
        seed=f"{seed} damage",
        settings=replace(
            settings,
            log_file_bytes=random.choice((4 * KIB, 8 * KIB, 32 * KIB)),
            tail_cache_bytes=random.choice((0, 16 * KIB)),
            maintenance_ms=random.choice((200, 1_000)),
            collect_ms=random.choice((300, 2_000)),
            sealed_logs_kept=random.choice((0, 1)),
            bookies_fetch=random.random() < 0.5,
        ),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
    )


def bookies_of(plan: RunPlan) -> list[str]:
    """Return the hosts of a plan's bookies."""
    return bookie_hosts(REGIONS, plan.bookies_by_region)


def _damages(random: Random, victim: str, kinds: tuple[str, ...]) -> list[Fault]:
    faults: list[Fault] = []
    for _ in range(random.randint(1, _DAMAGES_MAX)):
        lasts_ms = random.choice((0, 0, 50, 800))
        at_ms = random.randint(1_000, LASTS_MS)
        kind, files = random.choice(kinds), random.choice((1, 1, 1, 4))
        faults.append(Fault(kind, victim, at_ms, lasts_ms, files))
        if not lasts_ms and random.random() < 0.7:
            restart = random.choice(("kill", "kill", "power"))
            at_ms += random.choice((1, 300, 3_000))
            faults.append(Fault(restart, victim, at_ms, random.choice((50, 800))))
    return faults


def _restore(random: Random, victim: str) -> list[Fault]:
    """Return a back-up and its restoration: of the files, or of the whole disk after a restart."""
    copied_ms = random.randint(500, LASTS_MS // 2)
    is_image = random.random() < 0.5
    started_ms = copied_ms + random.randint(1, 3_000)
    restored_ms = copied_ms + random.randint(1, LASTS_MS // 2)
    lasts_ms = random.choice((50, 800, 3_000))
    faults = [Fault("back-up", victim, copied_ms)]
    if is_image or random.random() < 0.3:
        faults.append(Fault("kill", victim, started_ms, 50))
        restored_ms += started_ms - copied_ms
    return [*faults, Fault("restore", victim, restored_ms, lasts_ms, float(is_image))]
