from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS, LevelRange
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.installation import installed_version
from rhumbline.server.server_directory import ROOT as SERVERS
from rhumbline.server.server_directory import ServerRecord
from rhumbline.server.upgrade.process_versions import (
    PROCESSES,
    ProcessVersion,
    list_process_versions,
    nodes_of,
    nodes_of_bookie,
    older_than,
)

PROXY = ServerRecord("write-proxy", "h:4281", "h:8282", "us")
REPAIR = ServerRecord("repair", "", "h:8284", "eu")


async def put(store: MemoryStore, nodes: dict[str, bytes], name: str) -> None:
    for parent, value in nodes.items():
        await store.create(f"{parent}/{name}", value)


async def test_servers_say_which_levels_they_know() -> None:
    store = MemoryStore()
    assert await list_process_versions(store) == []
    await put(store, dict(nodes_of(PROXY)), "1")
    await put(store, dict(nodes_of(REPAIR)), "2")
    await put(store, dict(nodes_of_bookie(BookieId("b1@1"))), "3")
    await store.create(Paths().registration(BookieId("b1@1")), b"")
    found = await list_process_versions(store)
    assert [(one.kind, one.name) for one in found] == [
        ("bookie", "b1@1"),
        ("repair", "h:8284"),
        ("write-proxy", "h:4281"),
    ]
    assert {one.levels for one in found} == {KNOWN_LEVELS}
    assert {one.version for one in found} == {installed_version()}
    assert older_than(found, KNOWN_LEVELS.newest) == []
    assert len(older_than(found, KNOWN_LEVELS.newest + 1)) == 3


async def test_servers_that_say_nothing_know_the_first_level_alone() -> None:
    store = MemoryStore()
    await store.create(f"{SERVERS}/1", PROXY.encode())
    await store.create(f"{SERVERS}/2", b"of a later format")
    await store.create(f"{PROCESSES}/3", b"of a later format")
    await store.create(Paths().registration(BookieId("b1@1")), b"")
    await store.create(Paths().registration(BookieId("b2@2"), read_only=True), b"")
    found = await list_process_versions(store)
    assert {one.levels for one in found} == {LevelRange(1, 1)}
    assert older_than(found, 1) == []
    assert older_than(found, 2) == [
        "bookie b1@1 (a version without feature levels, levels 1 to 1)",
        "bookie b2@2 (a version without feature levels, levels 1 to 1)",
        "process of another version (a version without feature levels, levels 1 to 1)",
        "server of another version (a version without feature levels, levels 1 to 1)",
        "write-proxy h:4281 (a version without feature levels, levels 1 to 1)",
    ]


async def test_an_older_server_is_found_beside_a_newer_one_of_the_same_name() -> None:
    store = MemoryStore()
    newer = LevelRange(1, KNOWN_LEVELS.newest + 1)
    await put(store, dict(nodes_of(REPAIR)), "1")
    await put(store, dict(nodes_of(REPAIR, newer)), "2")
    await put(store, dict(nodes_of_bookie(BookieId("b1@1"))), "3")
    await put(store, dict(nodes_of_bookie(BookieId("b1@1"), newer)), "4")
    await store.create(f"{SERVERS}/5", REPAIR.encode())
    found = await list_process_versions(store)
    assert [one.name for one in found if one.levels.newest < newer.newest] == [
        "b1@1",
        "h:8284",
        "h:8284",
    ]
    assert len(older_than(found, newer.newest)) == 3


def test_a_later_program_may_add_fields_to_its_registration() -> None:
    data = b'{"v":1,"kind":"bookie","name":"b","version":"9","oldest":1,"newest":3,"more":1}'
    assert ProcessVersion.decode(data) == ProcessVersion("bookie", "b", "9", LevelRange(1, 3))
