"""A backup has a state of each stream that existed, although the store changes meanwhile."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    MetadataUnavailableError,
    WrongClusterError,
)
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.rebuild.backup import Backup, ledger_ids_in
from rhumbline.rebuild.collect_backup import Collection, ScannedNode, collect_backup, group_of
from rhumbline.rebuild.fill_store import fill_store
from rhumbline.tests.unit.core.bookie.bookie_world import World

STREAM = "/rhumbline/namespaces/n/streams/s"


def scanned(**versions: int) -> dict[str, ScannedNode]:
    return {
        f"{STREAM}/{name}": ScannedNode(b"%d" % number, Version(f"v{number}"))
        for name, number in versions.items()
    }


def tokens() -> str:
    return "00" * 8


def test_a_stream_is_one_group_and_other_nodes_are_alone() -> None:
    assert group_of(f"{STREAM}/segments/0000000000000000001") == STREAM == group_of(STREAM)
    assert group_of("/rhumbline/namespaces/n") == "/rhumbline/namespaces/n"
    assert group_of("/ledgers/00/0000/L0001") == "/ledgers/00/0000/L0001"


def test_a_group_counts_once_two_scans_agree() -> None:
    collection = Collection()
    assert not collection.add(scanned(head=1, schemas=1))
    assert not collection.add(scanned(head=2, schemas=1)), "torn between two writes"
    assert collection.add(scanned(head=2, schemas=1))
    assert collection.nodes() == {f"{STREAM}/head": b"2", f"{STREAM}/schemas": b"1"}


async def test_a_backup_is_restored_as_a_whole_or_not_at_all() -> None:
    world = World()
    await world.start()
    await create_namespace(world.store, world.runtime, "n", StreamPolicy())
    number = await world.ledgers.new_number()
    backup = await collect_backup(world.store, world.clock)
    assert Backup.decode(backup.encode(), "f") == backup
    assert backup.sequences[Paths().ids] == number.ledger_id + 1
    assert backup.store_number == 0
    assert ledger_ids_in(backup.nodes) == {}
    target = MemoryStore(MemoryTree())
    await target.create("/foreign")
    with pytest.raises(ForeignDataError, match="is not empty"):
        await fill_store(
            target, backup.nodes, backup.sequences, may_replace=False, new_token=tokens
        )
    assert await target.children("/") == ["foreign"], "it can be used as before"
    await fill_store(target, backup.nodes, backup.sequences, may_replace=True, new_token=tokens)
    again = await collect_backup(target, world.clock)
    assert (again.nodes, again.sequences) == (backup.nodes, backup.sequences)
    await world.aclose()


async def test_an_interrupted_restore_closes_the_store_until_it_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    await world.start()
    backup = await collect_backup(world.store, world.clock)
    target = MemoryStore(MemoryTree())

    async def fails(*_: object) -> None:
        raise MetadataUnavailableError("the store is gone")

    with monkeypatch.context() as patch, pytest.raises(MetadataUnavailableError):
        patch.setattr(target, "load", fails)
        await fill_store(
            target, backup.nodes, backup.sequences, may_replace=False, new_token=tokens
        )
    assert (await target.fence_state()).is_partial
    await fill_store(target, backup.nodes, backup.sequences, may_replace=False, new_token=tokens)
    assert (await target.fence_state()).successor is None
    assert (await target.get(Paths().instance_id)).data.decode() == world.instance_id
    await world.aclose()


async def test_a_store_that_changes_all_the_time_has_no_backup_and_an_empty_one_neither() -> None:
    world = World()
    await world.start()
    await create_namespace(world.store, world.runtime, "n", StreamPolicy())
    await world.store.create(STREAM)

    async def change() -> None:
        while True:
            await world.store.put(STREAM, b"")
            await asyncio.sleep(0)

    changing = asyncio.ensure_future(change())
    with pytest.raises(MetadataUnavailableError, match="1 streams changed"):
        await collect_backup(world.store, world.clock)
    changing.cancel()
    with pytest.raises(WrongClusterError):
        await collect_backup(MemoryStore(MemoryTree()), world.clock)
    await world.aclose()


async def test_impossible_backups_are_refused() -> None:
    world = World()
    await world.start()
    backup = await collect_backup(world.store, world.clock)
    for broken in (
        replace(backup, instance_id="another"),
        replace(backup, nodes={**backup.nodes, "no/path": b""}),
        replace(backup, sequences={"/ledgers/idgen": -1}),
    ):
        with pytest.raises(CorruptionError, match="not a valid backup"):
            Backup.decode(broken.encode(), "f")
    await world.aclose()
