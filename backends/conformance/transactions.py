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


async def a_transaction_applies_all_operations(world: "World") -> None:
    """The result has a version for each Create and Put, and None for each Check and Delete."""
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
    assert await world.store.get(b) == Value(b"B", _version_of(versions[1]))
    assert await world.store.get(d) == Value(b"D", _version_of(versions[3]))
    assert not await exists(world.store, c)
    await world.store.put(d, b"", expect=versions[3])


async def a_failed_transaction_changes_nothing(world: "World") -> None:
    """The error of the failed operation is raised, whichever operation fails, at any position."""
    a, b, missing = world.path("a"), world.path("b"), world.path("gone")
    _, stale = await world.store.create(a, b"0")
    version = await world.store.put(a, b"1")
    await world.store.create(f"{b}/child")
    failing: list[tuple[Operation, type[RhumblineError]]] = [
        (Check(a, stale), BadVersionError),
        (Check(missing, version), NoNodeError),
        (Check(a, None), NodeExistsError),
        (Create(a), NodeExistsError),
        (Put(missing, b""), NoNodeError),
        (Put(a, b"", stale), BadVersionError),
        (Delete(missing), NoNodeError),
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


async def the_first_failing_operation_determines_the_error(world: "World") -> None:
    """If several operations would fail, the error of the first one is raised."""
    a, missing = world.path("a"), world.path("gone")
    await world.store.create(a)
    await raises(NodeExistsError, world.store.txn([Create(a), Put(missing, b"")]))
    await raises(NoNodeError, world.store.txn([Put(missing, b""), Create(a)]))


async def operations_take_effect_in_order(world: "World") -> None:
    """An operation may use a parent that an earlier one creates, or a deletion of children."""
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
    """A parent that is deleted and created again in one transaction is empty and has a new version.

    The parent is created again because a later operation creates a child of it.
    """
    path, version = await world.store.create(world.path("p"), b"old")
    await world.store.txn([Delete(path), Create(f"{path}/child")])
    assert (await world.store.get(path)).data == b""
    await raises(BadVersionError, world.store.put(path, b"", expect=version))


async def limits_of_transactions_are_enforced(world: "World") -> None:
    """Transactions from no operation up to the limits succeed; larger ones are refused.

    A path that occurs twice is refused too.
    """
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


def _version_of(version: Version | None) -> Version:
    assert version is not None
    return version
