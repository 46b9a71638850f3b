"""The repair service of the product on a simulated host, in a hurry."""

import asyncio

from ...placement.region_aware import RegionAwarePlacement
from ...regions.repair.config import RepairConfig
from ...regions.repair.repair_service import RepairService
from .cluster import SimCluster
from .world.sim_world import SimHost

REPAIR = RepairConfig(
    lost_after_ms=3_000,
    audit_interval_ms=1_500,
    full_audit_interval_ms=6_000,
    recovery_grace_ms=3_000,
    retry_ms_min=300,
    retry_ms_max=3_000,
    session_ttl_ms=2_000,
)


def repair_host(region: str) -> str:
    """The machine of a region on which repair runs."""
    return f"repair-{region}"


async def run_repair(cluster: SimCluster, host: SimHost) -> None:
    """The program: audits if it is elected, mends what is to be mended."""
    async with cluster.client(host) as client:
        service = RepairService(
            host.runtime(),
            client.store,
            client.ledgers,
            client.directory,
            RegionAwarePlacement(),
            REPAIR,
        )
        service.start()
        await asyncio.Event().wait()
