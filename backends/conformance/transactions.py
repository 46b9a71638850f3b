"""Checks of ``txn``."""

from typing import TYPE_CHECKING

from ...core.protocol.errors import (
    BadVersionError,
    InvalidArgumentError,
    LimitExceededError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RhumblineError,
)
from ...core.runtime.metadata_store import (
    TXN_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    Check,
    Create,
    Delete,
    Operation,
    Put,
    Value,
    Version,
)
from .assertions import exists, raises

if TYPE_CHECKING:
    from .kit import World


async def a_transaction_does_all_of_it(world: "World") -> None:
    """Each Create and Put gets its version, Check and Delete get None."""
    a, b, c, d = (world.path(name) for name in "abcd")
    _, old_a = await world.store.create(a, b"a")
    _, old_b = await world.store.create(b, b"b")
    await world.store.create(c, b"c")
    versions = await world.store.txn(
        [
            Check(a, old_a),
            Put(b, b"B", old_b),
            Delete(c),
            Create(d, b"D"),
            Check(world.path("e"), None),
        ]
    )
    assert [version is None for version in versions] == [True, False, True, False, True]
    assert await world.store.get(a) == Value(b"a", old_a)
    assert await world.store.get(b) == Value(b"B", _known(versions[1]))
    assert await world.store.get(d) == Value(b"D", _known(versions[3]))
    assert not await exists(world.store, c)
    await world.store.put(d, b"", expect=versions[3])


async def a_transaction_that_fails_does_nothing(world: "World") -> None:
    """Whichever operation does not hold, wherever it stands; its error is raised."""
    a, b, gone = world.path("a"), world.path("b"), world.path("gone")
    _, stale = await world.store.create(a, b"0")
    version = await world.store.put(a, b"1")
    await world.store.create(f"{b}/child")
    failing: list[tuple[Operation, type[RhumblineError]]] = [
        (Check(a, stale), BadVersionError),
        (Check(gone, version), NoNodeError),
        (Check(a, None), NodeExistsError),
        (Create(a), NodeExistsError),
        (Put(gone, b""), NoNodeError),
        (Put(a, b"", stale), BadVersionError),
        (Delete(gone), NoNodeError),
        (Delete(a, stale), BadVersionError),
        (Delete(b), NotEmptyError),
    ]
    for operation, error in failing:
        good: list[Operation] = [Create(world.path("n/m")), Put(f"{b}/child", b"changed")]
        for position in range(len(good) + 1):
            attempt = [*good[:position], operation, *good[position:]]
            await raises(error, world.store.txn(attempt))
    assert await world.store.get(a) == Value(b"1", version)
    assert (await world.store.get(f"{b}/child")).data == b""
    assert await world.store.children(world.root) == ["a", "b"]


async def the_first_failing_operation_names_the_error(world: "World") -> None:
    """Operations count as done in order."""
    a, gone = world.path("a"), world.path("gone")
    await world.store.create(a)
    await raises(NodeExistsError, world.store.txn([Create(a), Put(gone, b"")]))
    await raises(NoNodeError, world.store.txn([Put(gone, b""), Create(a)]))


async def operations_build_on_one_another(world: "World") -> None:
    """A parent and then its child, with the parents of both; children and then their parent."""
    top = world.path("x/y")
    await world.store.txn([Create(top, b"p"), Create(f"{top}/1", b"1"), Create(f"{top}/2")])
    assert (await world.store.get(top)).data == b"p"
    await raises(NotEmptyError, world.store.txn([Delete(f"{top}/1"), Delete(top)]))
    await raises(NotEmptyError, world.store.txn([Delete(top), Delete(f"{top}/1")]))
    assert await world.store.children(top) == ["1", "2"]
    await world.store.txn([Delete(f"{top}/1"), Delete(f"{top}/2"), Delete(top)])
    assert await world.store.children(world.path("x")) == []
    await raises(NodeExistsError, world.store.txn([Create(f"{top}/1"), Create(top)]))
    assert await world.store.children(world.path("x")) == []


async def a_recreated_parent_is_a_new_node(world: "World") -> None:
    """A node that one operation deletes and a later one's parent needs is made again, empty."""
    path, version = await world.store.create(world.path("p"), b"old")
    await world.store.txn([Delete(path), Create(f"{path}/child")])
    assert (await world.store.get(path)).data == b""
    await raises(BadVersionError, world.store.put(path, b"", expect=version))


async def transactions_are_bounded(world: "World") -> None:
    """None is a transaction too, the largest works, one more or a path twice does not."""
    assert await world.store.txn([]) == []
    full = [Create(world.path(f"n/{number:03d}"), b"x") for number in range(TXN_OPERATIONS_MAX)]
    versions = await world.store.txn(full)
    assert all(version is not None for version in versions)
    assert len(await world.store.children(world.path("n"))) == TXN_OPERATIONS_MAX
    await raises(LimitExceededError, world.store.txn([*full, Create(world.path("n/more"))]))
    a = world.path("a")
    await raises(InvalidArgumentError, world.store.txn([Create(a), Put(a, b"")]))
    await raises(InvalidArgumentError, world.store.txn([Create("/bad/")]))
    await raises(InvalidArgumentError, world.store.txn([Put("/", b"")]))
    big = bytes(VALUE_BYTES_MAX + 1)
    await raises(LimitExceededError, world.store.txn([Create(a, big)]))
    assert not await exists(world.store, a)
    await raises(LimitExceededError, world.store.txn([Put(o.path, bytes(13_000)) for o in full]))
    largest = [Put(operation.path, bytes(8_000)) for operation in full]
    assert len(await world.store.txn(largest)) == TXN_OPERATIONS_MAX


def _known(version: Version | None) -> Version:
    assert version is not None
    return version
