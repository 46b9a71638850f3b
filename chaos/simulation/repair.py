"""The product's repair service on a simulated host, with short intervals."""

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
    ownerless_grace_ms=3_000,
    retry_ms_min=300,
    retry_ms_max=3_000,
    retention_interval_ms=700,
    session_ttl_ms=2_000,
)


def repair_host(region: str) -> str:
    """Return the name of a region's repair host. It is part of a seed's identity."""
    return f"repair-{region}"


async def run_repair(cluster: SimCluster, host: SimHost, config: RepairConfig = REPAIR) -> None:
    """Run the repair service: audit if elected, and repair under-replicated ledgers."""
    async with cluster.client(host) as client:
        service = RepairService(
            host.runtime(),
            client.store,
            client.ledgers,
            client.directory,
            RegionAwarePlacement(),
            config,
            on_takeover=cluster.add_takeover,
        )
        service.start()
        await asyncio.Event().wait()
