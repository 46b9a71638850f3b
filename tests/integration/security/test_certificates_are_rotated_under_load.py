"""All certificates of three regions are replaced, the authority too, and no append fails."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.chaos.lab.certificates.__main__ import REGIONS, make_streams, rotate
from rhumbline.chaos.lab.certificates.deployment import CLIENT, SERVER, Deployment
from rhumbline.chaos.lab.certificates.rotation import (
    REGION,
    Rotation,
    RotationResult,
    SecuredCluster,
)
from rhumbline.cli.servers.local_cluster import HOST, LocalCluster
from rhumbline.client.connect import Client
from rhumbline.client.system_runtime import system_runtime
from rhumbline.proxies.config import ProxyConfig
from rhumbline.security.settings import SecuritySettings
from rhumbline.server.proxy_host import running_proxy
from rhumbline.tls.credentials import TlsCredentials
from rhumbline.tls.protection import Protection


def check(result: RotationResult) -> None:
    print("\n".join(result.lines()))
    assert not result.failures
    assert len(result.steps) == 4
    assert all(gap.appended > 20 for gap in result.gaps.values())
    assert result.old_certificate_is_refused


async def test_certificates_and_authority_are_rotated_without_a_failed_append(
    tmp_path: Path,
) -> None:
    deployment = Deployment(tmp_path)
    protection = Protection(TlsCredentials(deployment.settings(SERVER)), SecuritySettings())
    cluster = LocalCluster(
        tmp_path, REGIONS, bookies_per_region=1, round_trips_ms={}, protection=protection
    )
    async with asyncio.timeout(200), cluster:
        tls = deployment.settings(CLIENT)
        await make_streams(cluster.metadata_uri, tls)
        runtime = system_runtime(None, protection.connecting)
        async with (
            Client(cluster.metadata_uri, region=REGION, runtime=runtime) as client,
            running_proxy(
                client,
                ProxyConfig(),
                roles=("write", "read"),
                host=HOST,
                port=0,
                status_port=0,
                protection=protection,
            ) as proxy,
        ):
            proxy_port = int(proxy.address.rpartition(":")[2])

            def ports() -> list[int]:
                bookies = [local.bookie for local in cluster.bookies]
                return [proxy_port, *(bookie.port for bookie in bookies if bookie is not None)]

            target = SecuredCluster(cluster.metadata_uri, proxy.address, ports)
            check(await Rotation(target, deployment).run(pause_s=0.2))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_processes_are_rotated_and_restarted_without_a_failed_append(tmp_path: Path) -> None:
    check(rotate(tmp_path, pause_s=3.0))
