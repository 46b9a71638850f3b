"""Cluster initialisation: concurrent and repeated calls agree on one instance id."""

import asyncio
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.metadata.cluster_layout import LAYOUT, Paths, initialise_cluster, instance_id
from rhumbline.core.protocol.errors import IndeterminateError, WrongClusterError
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.core.runtime.tasks import run_all
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, OK, LossyStore


async def test_a_cluster_has_the_nodes_that_apache_expects() -> None:
    store = MemoryStore()
    found = await initialise_cluster(store, Random(1))
    assert len(found) == 36
    assert (await store.get("/ledgers/INSTANCEID")).data == found.encode()
    assert (await store.get("/ledgers/LAYOUT")).data == LAYOUT
    assert LAYOUT.hex() == (
        "320a6f72672e6170616368652e626f6f6b6b65657065722e6d6574612e48696572617263686963616c"
        "4c65646765724d616e61676572466163746f72793a31"
    )
    for path in ("/ledgers/available", "/ledgers/available/readonly", "/ledgers/cookies"):
        assert (await store.get(path)).data == b""


async def test_a_second_initialisation_changes_nothing() -> None:
    store = MemoryStore()
    first = await initialise_cluster(store, Random(1))
    revision = store.tree.revision
    assert await initialise_cluster(store, Random(2)) == first
    assert await instance_id(store) == first
    assert store.tree.revision == revision


class Interleaving(LossyStore):
    """A store that yields to the event loop before each call, so that callers interleave."""

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        await asyncio.sleep(0)
        return await super().get(path, stale_ok=stale_ok)


@pytest.mark.parametrize("count", [2, 5])
async def test_concurrent_initialisations_agree(count: int) -> None:
    tree = MemoryTree()
    stores = [Interleaving(MemoryStore(tree)) for _ in range(count)]
    works = [initialise_cluster(store, Random(n)) for n, store in enumerate(stores)]
    assert len(set(await run_all(works, "initialise"))) == 1


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST])
@pytest.mark.parametrize("step", range(7))
async def test_a_lost_reply_at_any_step_is_harmless(outcome: str, step: int) -> None:
    store = LossyStore(MemoryStore())
    store.outcomes = [OK] * step + [outcome]
    found = await initialise_cluster(store, Random(1))
    assert found == await instance_id(store)


async def test_an_outcome_that_stays_unknown_raises_indeterminate_error() -> None:
    store = LossyStore(MemoryStore())
    store.outcomes = [LOST_REQUEST] * 3
    with pytest.raises(IndeterminateError):
        await initialise_cluster(store, Random(1))


async def test_a_partial_cluster_of_a_java_client_is_completed() -> None:
    store = MemoryStore()
    await store.create("/ledgers/available/readonly")
    await store.create("/ledgers/LAYOUT", LAYOUT + b"\n")
    with pytest.raises(WrongClusterError, match="no instance id"):
        await instance_id(store)
    assert await initialise_cluster(store, Random(1)) == await instance_id(store)


async def test_another_layout_is_rejected() -> None:
    store = MemoryStore()
    other = b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"
    await store.create("/ledgers/LAYOUT", other)
    with pytest.raises(WrongClusterError, match="another layout"):
        await initialise_cluster(store, Random(1))
    with pytest.raises(WrongClusterError, match="another layout"):
        await instance_id(store)


async def test_without_a_cluster_there_is_no_instance_id() -> None:
    with pytest.raises(WrongClusterError, match="no cluster at /other/root"):
        await instance_id(MemoryStore(), "/other/root")


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (1, "/ledgers/00/0000/L0001"),
        (1234567, "/ledgers/00/0123/L4567"),
        (2147483646, "/ledgers/21/4748/L3646"),
        (2147483647, "/ledgers/000/0000/0021/4748/L3647"),
        (5000000000123, "/ledgers/000/0005/0000/0000/L0123"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_ledger_paths_equal_bookkeepers(ledger_id: int, path: str) -> None:
    assert Paths().ledger(ledger_id) == path
