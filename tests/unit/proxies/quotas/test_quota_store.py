"""The stored quotas: concurrent changes are all kept, and all processes can read them."""

import asyncio

import pytest

from rhumbline.core.protocol.errors import FeatureLevelError
from rhumbline.proxies.quotas.quota_store import QuotaStore
from rhumbline.security.quotas import NO_QUOTAS, Quota, SubjectKind, parse_subject
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.raised_level import raise_level


async def test_concurrent_changes_are_all_kept(log: LogWorld) -> None:
    store = QuotaStore(log.store)
    assert await store.read() == NO_QUOTAS
    subjects = [parse_subject(f"principal:p{number}") for number in range(5)]
    woken = asyncio.Event()
    watch = store.watch(woken.set)
    await asyncio.gather(
        *(
            store.change(lambda table, one=one: table.with_quota(one, Quota(calls=1)))  # type: ignore[misc]
            for one in subjects
        )
    )
    await woken.wait()
    watch.close()
    table = await store.read()
    assert [subject for subject, _ in table.items()] == subjects
    await store.change(lambda table: table.without(subjects[0]))
    await store.change(lambda table: table.without(subjects[0]))
    assert (await store.read()).find(SubjectKind.PRINCIPAL, "p0") is None


@pytest.mark.parametrize(
    "subject, quota",
    [("principal:a", Quota(connections=1)), ("namespace:a", Quota(stored_bytes=1))],
)
async def test_a_limit_that_older_processes_cannot_read_needs_its_level(
    log: LogWorld, subject: str, quota: Quota
) -> None:
    store, named = QuotaStore(log.store), parse_subject(subject)
    older = await store.change(
        lambda table: table.with_quota(named, Quota(read_bytes_per_second=1))
    )
    for level in (1, 2):
        await raise_level(log.store, level)
        with pytest.raises(FeatureLevelError, match=f"need feature level 3, .* is at {level}"):
            await store.change(lambda table: table.with_quota(named, quota))
        assert await store.read() == older
    await raise_level(log.store, 3)
    assert (await store.change(lambda table: table.with_quota(named, quota))) == await store.read()
