"""The quotas of a proxy: followed, divided among the proxies, and kept when they cannot be read."""

import asyncio

import pytest

from rhumbline.core.protocol.errors import LimitExceededError, QuotaExceededError
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.proxies.quotas.proxy_quotas import ProxyQuotas
from rhumbline.proxies.quotas.quota_store import PATH, QuotaStore
from rhumbline.regions.usage.stored_bytes import publish
from rhumbline.security.caller import CURRENT_CALLER, Caller
from rhumbline.security.principal import Principal
from rhumbline.security.quotas import Quota, encode_quotas, parse_subject
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.raised_level import raise_level
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.proxies.proxy_world import ProxyWorld, an_item

ADA = Caller(Principal("ada"))


async def set_quota(store: MetadataStore, subject: str, quota: Quota) -> None:
    """Set a quota, and give the proxies time to see it."""
    await raise_level(store)
    await QuotaStore(store).change(lambda table: table.with_quota(parse_subject(subject), quota))
    await asyncio.sleep(0.1)


async def started(log: LogWorld, *addresses: str) -> tuple[ProxyWorld, ProxyQuotas]:
    """Start proxies, and return the quotas of the first one."""
    world = ProxyWorld(log)
    await world.start(*addresses)
    quotas = ProxyQuotas(world.proxies[addresses[0]].stores, 1 << 20)
    quotas.start()
    return world, quotas


async def test_limits_are_divided_among_the_proxies_that_are_registered(log: LogWorld) -> None:
    world, quotas = await started(log, "one:1", "two:1")
    await set_quota(log.store, "principal:ada", Quota(append_records_per_second=10))
    buckets = quotas.buckets
    assert buckets.append("ada", "a", "s", 5, 1, 0.0) is None
    assert buckets.append("ada", "a", "s", 1, 1, 0.0) is not None
    await world.proxies["two:1"].stop()
    await asyncio.sleep(0.1)
    assert buckets.append("ada", "a", "s", 10, 1, 0.0) is None
    assert buckets.append("ada", "a", "s", 1, 1, 0.0) is not None
    await quotas.aclose()
    await world.stop()


async def test_the_last_known_quotas_apply_while_they_cannot_be_read(log: LogWorld) -> None:
    world, quotas = await started(log, "one:1")
    await set_quota(log.store, "principal:ada", Quota(calls=1))
    known = quotas.buckets.table
    with recorded_log() as recorded:
        await log.store.put(PATH, b"not a record")
        await asyncio.sleep(5)
    assert recorded.events() == ["quotas not read"]
    assert quotas.buckets.table == known
    await log.store.put(PATH, encode_quotas(known.without(parse_subject("principal:ada"))))
    await asyncio.sleep(2)
    assert not quotas.buckets.table
    await quotas.aclose()
    await world.stop()


async def test_a_principal_has_a_limited_number_of_calls(log: LogWorld) -> None:
    world, quotas = await started(log, "one:1")
    await set_quota(log.store, "principal:ada", Quota(calls=2))
    token = CURRENT_CALLER.set(ADA)
    quotas.begin_call()
    quotas.begin_call()
    with pytest.raises(QuotaExceededError, match="principal:ada exceeds its quota calls"):
        quotas.begin_call()
    quotas.end_call()
    quotas.begin_call()
    CURRENT_CALLER.reset(token)
    quotas.begin_call()  # of another principal
    assert quotas.statistics()["principals"]["ada"]["refused"] == 1
    await quotas.aclose()
    await world.stop()


async def test_a_namespace_has_a_limited_number_of_streams(log: LogWorld) -> None:
    world, quotas = await started(log, "one:1")
    namespace = log.namespace
    await namespace.create_stream("one")
    await quotas.check_new_streams(namespace, "test", 100)
    await set_quota(log.store, "namespace:test", Quota(streams=3))
    await quotas.check_new_streams(namespace, "test", 2)
    with pytest.raises(LimitExceededError, match="namespace:test exceeds its quota streams: 3"):
        await quotas.check_new_streams(namespace, "test", 3)
    await quotas.aclose()
    await world.stop()


async def test_a_principal_has_calls_from_a_limited_number_of_connections(log: LogWorld) -> None:
    world, quotas = await started(log, "one:1")
    await set_quota(log.store, "principal:ada", Quota(connections=2))

    def begin(peer: str) -> None:
        CURRENT_CALLER.set(ADA._replace(peer=peer))
        quotas.begin_call()

    token = CURRENT_CALLER.set(ADA)
    for peer in ("a:1", "a:1", "a:2", "a:1"):
        begin(peer)
    with pytest.raises(QuotaExceededError, match="quota connections: 2 are open"):
        begin("a:3")
    CURRENT_CALLER.set(ADA._replace(peer="a:2"))
    quotas.end_call()
    begin("a:3")
    with pytest.raises(QuotaExceededError):
        begin("a:2")
    CURRENT_CALLER.reset(token)
    await quotas.aclose()
    await world.stop()


async def test_a_full_namespace_takes_no_appends_until_data_is_deleted(log: LogWorld) -> None:
    world, quotas = await started(log, "one:1")
    await publish(log.store, {"test": 1_000, "other": 5})
    quota = quotas.begin_call()
    assert quota.refusal_of(an_item("s", b"x")) is None, "without a quota nothing is full"
    await set_quota(log.store, "namespace:*", Quota(stored_bytes=1_000))
    refusal = quota.refusal_of(an_item("s", b"x"))
    assert isinstance(refusal, LimitExceededError)
    assert "namespace:test exceeds its quota stored_bytes: it stores 1000 bytes" in str(refusal)
    assert quotas.statistics()["full_namespaces"] == 1
    assert quotas.statistics()["namespaces"]["test"]["refused"] == 1
    await publish(log.store, {"test": 999, "other": 5})
    await asyncio.sleep(31)
    assert quota.refusal_of(an_item("s", b"x")) is None
    quotas.end_call()
    await quotas.aclose()
    await world.stop()
