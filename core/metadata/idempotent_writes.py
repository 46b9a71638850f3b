"""Writes whose lost replies are found out by writing and reading again.

A store answers IndeterminateError when it cannot tell whether a write was carried out. Each
function here may then repeat its write, because a repeat cannot do harm (a creation, or a change
that names the version it replaces, is carried out at most once), and then compares what is there by
content: if those are the bytes that this call wrote, the write has happened.

Whatever stays unknown after ``ATTEMPTS`` raises IndeterminateError, never a plain failure: once one
attempt was uncertain, "the store is not reachable" no longer means that nothing happened.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ..runtime.metadata_store import Create, Delete, MetadataStore, Operation, Put, Value, Version

ATTEMPTS = 3

T = TypeVar("T")


async def create(store: MetadataStore, path: str, data: bytes = b"") -> Version:
    """Makes a node. Raises NodeExistsError, also when it was made and then changed by another.

    ``data`` must hold something that no other creator of the same path would write, or it must not
    matter which of them made the node.
    """

    async def once() -> Version:
        return (await store.create(path, data))[1]

    return await _certainly(store, path, data, once, (NodeExistsError,))


async def exchange(store: MetadataStore, old: str, new: str, data: bytes) -> Version:
    """Makes the node ``new`` in the place of ``old``, in one transaction.

    At most once, however often and however late its request arrives: also after ``new`` was
    deleted again, when a lost creation could still be carried out. Raises NoNodeError (``old`` is
    gone: this call or another exchanged it, and ``new`` was changed or deleted since),
    NodeExistsError.
    """

    return await transact(store, [Delete(old)], Create(new, data))


async def transact(
    store: MetadataStore, conditions: Sequence[Operation], change: Create | Put
) -> Version:
    """Carries out ``change`` with ``conditions`` in one transaction, which cannot happen twice, and
    whose outcome the changed node tells. Raises NoNodeError, NodeExistsError, BadVersionError."""

    async def once() -> Version:
        version = (await store.txn([*conditions, change]))[-1]
        assert version is not None
        return version

    refusals = (NoNodeError, NodeExistsError, BadVersionError)
    return await _certainly(store, change.path, change.data, once, refusals)


async def put(store: MetadataStore, path: str, data: bytes, expect: Version) -> Version:
    """Replaces a node's data, at most once. Raises BadVersionError, NoNodeError."""

    async def once() -> Version:
        return await store.put(path, data, expect=expect)

    return await _certainly(store, path, data, once, (BadVersionError,))


async def delete(store: MetadataStore, path: str, expect: Version | None = None) -> None:
    """Removes a node. Raises NoNodeError, BadVersionError, NotEmptyError."""
    unsure: IndeterminateError | None = None
    for _ in range(ATTEMPTS):
        try:
            return await store.delete(path, expect=expect)
        except IndeterminateError as error:
            unsure = error
        except NoNodeError:
            if unsure is None:
                raise
            return None
        except MetadataUnavailableError as error:
            raise unsure or error from error
    raise unsure or AssertionError("no attempt was made")


async def look(store: MetadataStore, path: str) -> Value | None:
    """The node's value; None when it does not exist."""
    try:
        return await store.get(path)
    except NoNodeError:
        return None


async def _certainly(
    store: MetadataStore,
    path: str,
    data: bytes,
    once: Callable[[], Awaitable[Version]],
    refusals: tuple[type[MetadataError], ...],
) -> Version:
    """Repeats ``once`` while its outcome is unknown; a refusal then may be its own success."""
    unsure: IndeterminateError | None = None
    for _ in range(ATTEMPTS):
        try:
            return await once()
        except IndeterminateError as error:
            unsure = error
        except refusals:
            if unsure is None:
                raise
            try:
                value = await look(store, path)
            except MetadataUnavailableError as error:
                raise unsure from error
            if value is not None and value.data == data:
                return value.version
            raise
        except MetadataUnavailableError as error:
            raise unsure or error from error
    raise unsure or AssertionError("no attempt was made")
