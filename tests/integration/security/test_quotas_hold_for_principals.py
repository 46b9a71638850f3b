"""Quotas at a real proxy with TLS: one principal is slowed down, and others are not."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.client.connect import connect
from rhumbline.core.protocol.errors import LimitExceededError
from rhumbline.proxies.quotas.quota_store import QuotaStore
from rhumbline.security.audit import AuditEvent, AuditResult
from rhumbline.security.quotas import Quota, parse_subject
from rhumbline.security.settings import TlsSettings
from rhumbline.tests.support.security.certificates import settings_for
from rhumbline.tests.support.security.secured_cluster import (
    NAMESPACE,
    REGION,
    STREAM,
    Secured,
    secured,
)

LIMITED, FREE = "spiffe://test/client/client", "spiffe://test/client/free"
RATE, RECORDS = 200, 500


class Recorded:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def set_quotas(made: Secured, **quotas: Quota) -> None:
    """Set quotas, and wait until the proxy applies them."""
    async with made.cluster.client(REGION, namespace=NAMESPACE) as client:
        store = QuotaStore(client.store)
        for subject, quota in quotas.items():
            named = parse_subject(subject)
            await store.change(lambda table, s=named, q=quota: table.with_quota(s, q))  # type: ignore[misc]
    while made.proxy.statistics()["quotas"]["quotas"] < len(quotas):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def append_all(made: Secured, tls: TlsSettings, stream: str) -> float:
    """Append records one by one, many at once; return the time that it took."""
    loop = asyncio.get_running_loop()
    async with (
        connect(f"grpc://{made.proxy.address}", tls=tls) as thin,
        thin.writer(stream) as writer,
    ):
        began = loop.time()
        for _ in range(RECORDS // 50):
            await asyncio.gather(*(writer.append(b"x" * 100) for _ in range(50)))
        return loop.time() - began


async def test_a_principal_is_limited_and_others_are_not(tmp_path: Path) -> None:
    sink = Recorded()
    async with asyncio.timeout(60), secured(tmp_path, audit=sink) as made:
        free = settings_for(made.authority, "free")
        await set_quotas(
            made,
            **{
                f"principal:{LIMITED}": Quota(append_records_per_second=RATE),
                f"namespace:{NAMESPACE}": Quota(streams=2),
            },
        )
        async with connect(f"grpc://{made.proxy.address}", tls=free) as thin:
            await thin.namespace().create_stream("other")
            with pytest.raises(LimitExceededError, match="exceeds its quota streams: 2"):
                await thin.namespace().create_stream("third")
        limited_s, _ = await asyncio.gather(
            append_all(made, made.client_tls, STREAM), append_all(made, free, "other")
        )
        assert limited_s >= (RECORDS - RATE) / RATE * 0.95  # a second's worth passes at once
        used = made.proxy.statistics()["quotas"]["principals"]
        assert used[LIMITED]["append_records"] == used[FREE]["append_records"] == RECORDS
        assert used[LIMITED]["refused"] > 0 and used[FREE]["refused"] == 1
    refused = {
        (event.action, event.principal, event.error)
        for event in sink.events
        if event.result is AuditResult.REFUSED and event.action != "connect"
    }  # clients of other tests may still call ports of their old servers
    assert refused == {
        ("Append", LIMITED, "quota-exceeded"),
        ("CreateStream", FREE, "limit-exceeded"),
    }
