"""Producers under a quota: they wait for it, and get its error after their deadline."""

import asyncio
import time

import pytest

from rhumbline.core.protocol.errors import QuotaExceededError
from rhumbline.proxies.quotas.caller_quota import CallerQuota
from rhumbline.proxies.quotas.fair_shares import FairShares
from rhumbline.proxies.quotas.full_namespaces import FullNamespaces
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.write.append_item import Appended
from rhumbline.proxies.write.append_session import AppendSession
from rhumbline.security.audit import AuditEvent, AuditResult
from rhumbline.security.caller import Caller
from rhumbline.security.principal import Principal
from rhumbline.security.quota_buckets import QuotaBuckets
from rhumbline.security.quotas import Quota, QuotaTable, parse_subject
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld, an_item

ADA = Caller(Principal("ada"), "192.0.2.1:7", "request-1")


class Recorded:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def limited_world(log: LogWorld, rate: int) -> tuple[ProxyWorld, Recorded]:
    """Start a proxy whose clients share the quota of one principal, in records per second."""
    world, sink = ProxyWorld(log), Recorded()
    await log.namespace.create_stream("s")
    await world.start("one:1")
    buckets = QuotaBuckets()
    table = QuotaTable({parse_subject("principal:ada"): Quota(append_records_per_second=rate)})
    buckets.replace(table, writers=1, readers=1)
    world.proxies["one:1"].quota = CallerQuota(
        ADA, buckets, FairShares(1 << 20), FullNamespaces(), lambda: sink
    )
    return world, sink


async def test_a_producer_waits_for_its_quota_and_keeps_its_order(log: LogWorld) -> None:
    world, sink = await limited_world(log, rate=10)
    writer = world.writer("s", timeout_ms=60_000)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(40):
        await writer.append(b"%d" % number)
    assert loop.time() - began >= 2.9  # 10 pass at once, and 30 at 10 a second
    await world.stop()
    assert [payload for _, payload in await world.contents("s")] == [b"%d" % n for n in range(40)]
    assert set(sink.events) == {
        AuditEvent(
            "Append", AuditResult.REFUSED, "ada", "192.0.2.1:7", "stream:test/s", "quota-exceeded",
            "request-1",
        )
    }  # fmt: skip


async def test_after_the_deadline_the_error_is_that_of_the_quota(log: LogWorld) -> None:
    world, _ = await limited_world(log, rate=1)
    writer = world.writer("s", timeout_ms=1_500)
    await asyncio.gather(*(writer.append(b"first") for _ in range(50)))  # one set passes as a whole
    with pytest.raises(QuotaExceededError, match="principal:ada exceeds its quota") as caught:
        await writer.append(b"more")
    assert caught.value.retry_after_ms > 0 and caught.value.retryable
    await world.stop()


async def test_a_call_is_not_read_for_a_moment_after_a_refusal(log: LogWorld) -> None:
    world, _ = await limited_world(log, rate=1)
    quota = world.proxies["one:1"].quota
    assert quota is not None
    loop = asyncio.get_running_loop()
    began = loop.time()
    await quota.room()
    assert loop.time() == began
    assert quota.refusal_of(an_item("s", b"x")) is None
    assert quota.refusal_of(an_item("s", b"x")) is not None
    await quota.room()
    assert 0.19 <= loop.time() - began <= 0.21
    await world.stop()


async def test_a_request_with_many_sets_is_submitted_in_shares(log: LogWorld) -> None:
    world = ProxyWorld(log)
    await log.namespace.create_stream("s")
    await world.start("one:1")
    shares = FairShares(3_000)
    shares.add("bob", 1)  # he appends, too
    quota = CallerQuota(ADA, QuotaBuckets(), shares, FullNamespaces(), Recorded)
    most = 0

    def note() -> None:
        nonlocal most
        most = max(most, session.outstanding_bytes)

    writes = world.proxies["one:1"].writes
    session = AppendSession(writes, note, bytes_max=1 << 20, quota=quota)
    request = pb.AppendRequest()
    for number in range(50):
        record_set = an_item("s", b"x" * 1_000).record_set
        request.items.add(id=number, namespace="test", stream="s", record_set=record_set)
    taking = asyncio.ensure_future(session.take(request))
    await asyncio.sleep(0)
    assert not taking.done() and session.outstanding_bytes < 5_000
    results = []
    while not (taking.done() and session.outstanding_bytes == 0):
        note()
        results += session.take_results()
        await asyncio.sleep(0.001)
    results += session.take_results()
    assert [id_ for id_, _ in results] == list(range(50))
    assert all(isinstance(outcome, Appended) for _, outcome in results)
    assert most < 5_000
    await world.stop()
    assert len(await world.contents("s")) == 50


def test_the_check_of_a_record_set_is_cheap() -> None:
    buckets = QuotaBuckets()
    limits = Quota(append_bytes_per_second=10**12, append_records_per_second=10**12)
    for text in ("principal:*", "namespace:*", "stream:*"):
        buckets.replace(buckets.table.with_quota(parse_subject(text), limits), writers=1, readers=1)
    began = time.perf_counter()
    for _ in range(20_000):
        assert buckets.append("ada", "a", "s", 1, 100, 1.0) is None
    print(f"{(time.perf_counter() - began) / 20_000 * 1e6:.2f} us for each record set")
