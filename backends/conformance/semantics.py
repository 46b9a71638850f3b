"""Checks of single operations without concurrency."""

from typing import TYPE_CHECKING

from ...core.protocol.errors import (
    BadVersionError,
    ClosedError,
    InvalidArgumentError,
    LimitExceededError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ...core.runtime.metadata_store import VALUE_BYTES_MAX, Create, Value
from .assertions import exists, raises

if TYPE_CHECKING:
    from .kit import World

ODD_NAMES = ["!", "-", "0", "A", "B", "a", "a b", "a%2Fb", "a-b", "a.b", "ab", "a~", "é", "日本"]
BAD_PATHS = ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a\x00", "/a\nb", "/\ud800"]
BAD_PATHS += ["/.rhumbline", "/.rhumbline/x", "/\uf8ff", "/\uffff", "/" + "x" * 2000]


async def the_root_always_exists(world: "World") -> None:
    """The root can be read and listed, but never created, written or deleted."""
    assert world.root[1:] in await world.store.children("/")
    await world.store.get("/")
    await raises(InvalidArgumentError, world.store.create("/"))
    await raises(InvalidArgumentError, world.store.put("/", b""))
    await raises(InvalidArgumentError, world.store.delete("/"))


async def a_created_node_reads_back(world: "World") -> None:
    """``get`` returns the created data and the version from ``create``, on every handle."""
    path, version = await world.store.create(world.path("a"), b"\x00data\xff")
    assert path == world.path("a")
    assert await world.store.get(path) == Value(b"\x00data\xff", version)
    assert await (await world.open_handle()).get(path) == Value(b"\x00data\xff", version)


async def several_nodes_are_read_at_once(world: "World") -> None:
    """``get_all`` returns what ``get`` returns for each path, in order, and None without a node."""
    paths = [world.path(name) for name in "abc"]
    versions = [(await world.store.create(path, path.encode()))[1] for path in paths]
    found = [Value(path.encode(), version) for path, version in zip(paths, versions, strict=True)]
    missing = world.path("missing")
    wanted = [paths[2], missing, paths[0], "/", paths[1], paths[0]]
    root = await world.store.get("/")
    expected = [found[2], None, found[0], root, found[1], found[0]]
    assert await world.store.get_all(wanted) == expected
    assert await world.store.get_all([]) == []
    many = await world.store.get_all([*paths, *[missing] * 200])
    assert many == [*found, *[None] * 200]
    stale = await world.store.get_all(paths, stale_ok=True)
    assert [None if value is None else value.data for value in stale] in (
        [value.data for value in found[:count]] + [None] * (3 - count) for count in range(4)
    )


async def versions_of_a_path_are_ordered(world: "World") -> None:
    """``is_newer`` knows the order of the versions of one path, beyond a deletion too."""
    path = world.path("a")
    versions = [(await world.store.create(path))[1]]
    for number in range(11):  # numbers of one digit and of two
        versions.append(await world.store.put(path, b"%d" % number))
    await world.store.delete(path)
    versions.append((await world.store.create(path))[1])
    for index, version in enumerate(versions):
        for other_index, other in enumerate(versions):
            assert world.store.is_newer(version, other) == (index > other_index)


async def an_empty_value_is_valid(world: "World") -> None:
    """A node can be created with an empty value and can be set to one."""
    path, _ = await world.store.create(world.path("a"))
    assert (await world.store.get(path)).data == b""
    await world.store.put(path, b"x")
    await world.store.put(path, b"")
    assert (await world.store.get(path)).data == b""


async def a_missing_node_raises_no_node_error(world: "World") -> None:
    """Every operation except ``create`` on a missing node raises NoNodeError."""
    path = world.path("missing")
    await raises(NoNodeError, world.store.get(path))
    await raises(NoNodeError, world.store.children(path))
    await raises(NoNodeError, world.store.put(path, b""))
    await raises(NoNodeError, world.store.delete(path))
    _, version = await world.store.create(world.path("other"))
    await raises(NoNodeError, world.store.put(path, b"", expect=version))
    await raises(NoNodeError, world.store.delete(path, expect=version))
    assert not await exists(world.store, path)


async def a_second_create_fails_and_changes_nothing(world: "World") -> None:
    """A second ``create`` raises NodeExistsError, even with the same data."""
    path, version = await world.store.create(world.path("a"), b"first")
    await raises(NodeExistsError, world.store.create(path, b"second"))
    await raises(NodeExistsError, world.store.create(path, b"first"))
    assert await world.store.get(path) == Value(b"first", version)


async def create_creates_missing_parents(world: "World") -> None:
    """Missing parents are created as empty nodes; existing ones keep their data."""
    await world.store.create(world.path("a"), b"kept")
    await world.store.create(world.path("a/b/c/d"), b"leaf")
    assert (await world.store.get(world.path("a"))).data == b"kept"
    assert (await world.store.get(world.path("a/b/c"))).data == b""
    assert await world.store.children(world.path("a/b")) == ["c"]
    await raises(NodeExistsError, world.store.create(world.path("a/b")))


async def put_replaces_the_data_and_returns_a_new_version(world: "World") -> None:
    """The version is new even if the data is the same; an old ``expect`` raises BadVersionError."""
    path, first = await world.store.create(world.path("a"), b"same")
    second = await world.store.put(path, b"same", expect=first)
    third = await world.store.put(path, b"other")
    assert len({first, second, third}) == 3
    for stale in (first, second):
        await raises(BadVersionError, world.store.put(path, b"stale", expect=stale))
        await raises(BadVersionError, world.store.delete(path, expect=stale))
    assert await world.store.get(path) == Value(b"other", third)
    await world.store.delete(path, expect=third)
    await raises(NoNodeError, world.store.get(path))


async def a_version_of_a_deleted_node_is_never_valid_again(world: "World") -> None:
    """The version stays invalid even if an equal node is created and written equally often."""
    path = world.path("a")
    seen = set()
    for _ in range(4):
        _, created = await world.store.create(path, b"same")
        seen |= {created, await world.store.put(path, b"same")}
        await world.store.delete(path)
    assert len(seen) == 8
    _, created = await world.store.create(path, b"same")
    for old in seen:
        await raises(BadVersionError, world.store.put(path, b"x", expect=old))
    current = await world.store.put(path, b"same", expect=created)
    for old in seen:
        await raises(BadVersionError, world.store.put(path, b"x", expect=old))
        await raises(BadVersionError, world.store.delete(path, expect=old))
    assert await world.store.get(path) == Value(b"same", current)


async def an_unknown_version_never_matches(world: "World") -> None:
    """``expect`` with a string that was never a version raises BadVersionError."""
    path, version = await world.store.create(world.path("a"))
    for wrong in ("", "0", "-1", f"{version}0", "no version", "x.y.z"):
        await raises(BadVersionError, world.store.put(path, b"", expect=type(version)(wrong)))


async def changes_of_children_leave_the_parent_unchanged(world: "World") -> None:
    """Creating and deleting children changes neither the version nor the data of the parent."""
    path, version = await world.store.create(world.path("a"), b"x")
    await world.store.create(f"{path}/b")
    await world.store.create(f"{path}/s-", sequential=True)
    await world.store.delete(f"{path}/b")
    assert await world.store.get(path) == Value(b"x", version)


async def a_node_with_children_cannot_be_deleted(world: "World") -> None:
    """``delete`` raises NotEmptyError until the last child is deleted."""
    path, version = await world.store.create(world.path("a"))
    await world.store.create(f"{path}/b")
    await raises(NotEmptyError, world.store.delete(path))
    await raises(NotEmptyError, world.store.delete(path, expect=version))
    await world.store.delete(f"{path}/b")
    await world.store.delete(path, expect=version)


async def children_are_listed_in_byte_order_and_pages(world: "World") -> None:
    """Names are ordered by their UTF-8 bytes; the name in ``after`` need not exist."""
    parent = world.path("p")
    for name in reversed(ODD_NAMES):
        await world.store.create(f"{parent}/{name}", name.encode())
    await world.store.create(f"{parent}/a/grandchild")
    await world.store.create(world.path("p-sibling/x"))
    ordered = sorted(ODD_NAMES, key=str.encode)
    children = world.store.children
    assert await children(parent) == ordered
    assert await children(parent, limit=3) == ordered[:3]
    assert await children(parent, after=ordered[2], limit=4) == ordered[3:7]
    assert await children(parent, after="a!") == [name for name in ordered if name > "a!"]
    assert await children(parent, after=ordered[-1]) == []
    assert await children(parent, limit=0) == []
    assert await children(f"{parent}/ab") == []
    for name in ODD_NAMES:
        assert (await world.store.get(f"{parent}/{name}")).data == name.encode()


async def paging_through_many_children_misses_none(world: "World") -> None:
    """Reading 300 children in pages and in one call returns the same complete list."""
    names = [f"n{number:04d}" for number in range(300)]
    for start in range(0, len(names), 50):
        await world.store.txn(
            [Create(world.path(f"many/{name}")) for name in names[start : start + 50]]
        )
    assert await world.store.children(world.path("many")) == names
    read: list[str] = []
    while page := await world.store.children(
        world.path("many"), after=read[-1] if read else None, limit=70
    ):
        read += page
    assert read == names


async def limits_of_values_and_paths_are_enforced(world: "World") -> None:
    """The largest value is accepted; one byte more and malformed paths are refused."""
    path, _ = await world.store.create(world.path("big"), bytes(VALUE_BYTES_MAX))
    await raises(LimitExceededError, world.store.put(path, bytes(VALUE_BYTES_MAX + 1)))
    await raises(
        LimitExceededError, world.store.create(world.path("b"), bytes(VALUE_BYTES_MAX + 1))
    )
    assert len((await world.store.get(path)).data) == VALUE_BYTES_MAX
    for bad in BAD_PATHS:
        await raises(InvalidArgumentError, world.store.get(bad))
        await raises(InvalidArgumentError, world.store.create(bad))
        await raises(InvalidArgumentError, world.store.children(bad))
    deep = world.path("/".join(["d"] * 100))
    await world.store.create(deep, b"deep")
    assert (await world.store.get(deep)).data == b"deep"


async def sequential_names_increase_and_are_unique(world: "World") -> None:
    """Each name ends in at least ten digits, which increase even after deletions."""
    seen: list[int] = []
    for count in range(12):
        path, version = await world.store.create(
            world.path("q/ID-"), f"{count}".encode(), sequential=True
        )
        digits = path.removeprefix(world.path("q/ID-"))
        assert len(digits) >= 10 and digits.isdigit(), path
        assert not seen or int(digits) > seen[-1], f"{digits} follows {seen}"
        seen.append(int(digits))
        assert await world.store.get(path) == Value(f"{count}".encode(), version)
        if count % 2:
            await world.store.delete(path, expect=version)
    assert len(await world.store.children(world.path("q"))) == 6


async def a_closed_store_refuses_every_call(world: "World") -> None:
    """Every call after ``close`` raises ClosedError; ``close`` may be repeated."""
    store = await world.open_handle()
    await store.get("/")
    await store.close()
    await store.close()
    await raises(ClosedError, store.get("/"))
    await raises(ClosedError, store.create(world.path("a")))
    await raises(ClosedError, store.children("/"))
    await raises(ClosedError, store.session(10_000))
    assert not await exists(world.store, world.path("a"))
