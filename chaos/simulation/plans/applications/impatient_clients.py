"""The plan ``impatient-clients``: ``proxies`` whose producers give up after a short time.

A producer that gives up must tell its application whether the records may be in the stream. It
knows only what proxies told it, so a proxy must not call a record set "not appended" if its outcome
is unknown (invariant G5).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from ...seed_run import RunPlan
from ...world.sim_world import SimWorld
from ..proxies import proxies

if TYPE_CHECKING:
    from ...proxies.impatient_run import ImpatientRun


def impatient_clients(seed: int) -> RunPlan:
    """Return a plan of ``proxies`` in which a set is sent again for less than a second."""
    return replace(proxies(seed), seed=f"{seed} impatient clients", run=_run)


def _run(world: SimWorld, plan: RunPlan) -> "ImpatientRun":
    """Return the run of a plan. Only plans with proxies need the packages of the extra ``grpc``."""
    from ...proxies.impatient_run import ImpatientRun

    return ImpatientRun(world, plan)
