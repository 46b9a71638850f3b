"""Metadata writes that resolve unknown outcomes by repeating the write and reading (rule LED-3).

A store raises IndeterminateError if it does not know whether a write was carried out. The functions
here then repeat the write, which is harmless: a creation, or a change that names the version that
it replaces, is carried out at most once. If the repeat is refused, they compare the node's content:
if it equals the data of this call, the write has happened.

If the outcome is still unknown after ``ATTEMPTS``, IndeterminateError is raised, never a plain
failure: after one attempt with an unknown outcome, a store that is unreachable no longer means that
nothing happened.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ..protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ..runtime.metadata_store import (
    Create,
    Delete,
    MetadataReads,
    MetadataStore,
    Operation,
    Put,
    Value,
    Version,
)

ATTEMPTS = 3

T = TypeVar("T")


async def create(store: MetadataStore, path: str, data: bytes = b"") -> Version:
    """Create a node. Raises NodeExistsError, also if it was created and then changed by another.

    ``data`` must contain something that no other creator of the same path writes, unless it does
    not matter which of them created the node.
    """

    async def attempt() -> Version:
        return (await store.create(path, data))[1]

    return await _write_until_certain(store, path, data, attempt, (NodeExistsError,))


async def exchange(store: MetadataStore, old: str, new: str, data: bytes) -> Version:
    """Replace the node ``old`` by the node ``new``, in one transaction.

    The exchange happens at most once, even if a request arrives late or repeatedly, and even if
    ``new`` was deleted in between, when a delayed plain creation would still succeed. Raises
    NoNodeError (``old`` is gone: this call or another replaced it, and ``new`` was changed or
    deleted since) and NodeExistsError.
    """
    return await transact(store, [Delete(old)], Create(new, data))


async def transact(
    store: MetadataStore, conditions: Sequence[Operation], change: Create | Put
) -> Version:
    """Carry out ``change`` under ``conditions`` in one transaction.

    The conditions must exclude a second execution, and the changed node must show the outcome.
    Raises NoNodeError, NodeExistsError, BadVersionError.
    """

    async def attempt() -> Version:
        version = (await store.txn([*conditions, change]))[-1]
        assert version is not None
        return version

    refusals = (NoNodeError, NodeExistsError, BadVersionError)
    return await _write_until_certain(store, change.path, change.data, attempt, refusals)


async def put(store: MetadataStore, path: str, data: bytes, expect: Version) -> Version:
    """Replace a node's data, at most once. Raises BadVersionError, NoNodeError."""

    async def attempt() -> Version:
        return await store.put(path, data, expect=expect)

    return await _write_until_certain(store, path, data, attempt, (BadVersionError,))


async def delete(store: MetadataStore, path: str, expect: Version | None = None) -> None:
    """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
    unknown_outcome: IndeterminateError | None = None
    for _ in range(ATTEMPTS):
        try:
            return await store.delete(path, expect=expect)
        except IndeterminateError as error:
            unknown_outcome = error
        except NoNodeError:
            if unknown_outcome is None:
                raise
            return None
        except MetadataUnavailableError as error:
            raise unknown_outcome or error from error
    raise unknown_outcome or AssertionError("no attempt was made")


async def discard(store: MetadataStore, path: str, expect: Version | None = None) -> None:
    """Delete a node, unless it does not exist or does not have the version ``expect`` any more.

    Safe to repeat, and with ``expect`` a request that arrives late deletes no later node of the
    same path. Raises NotEmptyError, MetadataUnavailableError, and IndeterminateError if the node
    may still exist.
    """
    with suppress(NoNodeError, BadVersionError):
        await delete(store, path, expect)


async def read_if_exists(
    store: MetadataReads, path: str, *, stale_ok: bool = False
) -> Value | None:
    """Return the node's value; None if it does not exist."""
    try:
        return await store.get(path, stale_ok=stale_ok)
    except NoNodeError:
        return None


async def _write_until_certain(
    store: MetadataStore,
    path: str,
    data: bytes,
    attempt: Callable[[], Awaitable[Version]],
    refusals: tuple[type[MetadataError], ...],
) -> Version:
    """Repeat ``attempt`` while its outcome is unknown; a later refusal may mean success."""
    unknown_outcome: IndeterminateError | None = None
    for _ in range(ATTEMPTS):
        try:
            return await attempt()
        except IndeterminateError as error:
            unknown_outcome = error
        except refusals:
            if unknown_outcome is None:
                raise
            try:
                value = await read_if_exists(store, path)
            except MetadataUnavailableError as error:
                raise unknown_outcome from error
            if value is not None and value.data == data:
                return value.version
            raise
        except MetadataUnavailableError as error:
            raise unknown_outcome or error from error
    raise unknown_outcome or AssertionError("no attempt was made")
