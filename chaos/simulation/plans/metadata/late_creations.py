"""The plan ``late-creations``: streams are created and deleted while requests arrive late.

It is the part of ``recreation`` that concerns creations alone. Every host only creates and deletes
streams of two names. A share of the requests to the metadata store arrives when its sender has
given up waiting, so that a creation may arrive after the stream was deleted again (rule STR-23).

The string "late creations" seeds the generator, so it is part of a seed's identity.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from ...cluster import Fault
from ...seed_run import RunPlan
from ..recreation import Administrators, RecreationRun, recreation
from ..swarm import LASTS_MS


def late_creations(seed: int) -> RunPlan:
    """Return a plan in which late requests are the only faults."""
    random = Random(f"{seed} late creations")
    plan = recreation(seed)
    share = random.choice((0.2, 0.4))
    return replace(
        plan,
        seed=f"{seed} late creations",
        habits=replace(plan.habits, pause_ms=2_000),
        faults=(Fault("metadata-late-requests", "metadata", 0, LASTS_MS, share),),
        writers=plan.writers[:1],
        appends_max=20,
        run=LateCreationsRun,
    )


class CreatingAdministrators(Administrators):
    """Administrators that only create and delete streams."""

    kinds: Mapping[str, int] = {"create": 1, "delete": 1}


class LateCreationsRun(RecreationRun):
    """A run of ``late-creations``."""

    administrators_type = CreatingAdministrators
