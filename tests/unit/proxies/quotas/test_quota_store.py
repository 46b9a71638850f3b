"""The stored quotas: concurrent changes are all kept."""

import asyncio

from rhumbline.proxies.quotas.quota_store import QuotaStore
from rhumbline.security.quotas import NO_QUOTAS, Quota, SubjectKind, parse_subject
from rhumbline.tests.support.fakes.log_world import LogWorld


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
