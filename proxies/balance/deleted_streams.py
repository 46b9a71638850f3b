"""Removes the assignments of streams that were deleted (rule PRX-44).

A pin names a stream, so it would apply to a later stream of that name, and the table is bounded.
The transaction that removes an assignment requires that no stream has the name and that the table
is the one that was read. It therefore never removes the pin of a stream that was created meanwhile.
"""

from collections.abc import Iterable

from ...core.log.metadata.paths import StreamPaths
from ...core.protocol.errors import InvalidArgumentError, MetadataUnavailableError
from ...core.runtime.metadata_store import Check, MetadataStore, Operation
from ..routing import stream_key
from .assignment_store import assignment_regions, read_table, write_table
from .assignments import AssignmentTable

STREAMS_MAX = 32
"""Maximum number of streams that are examined at once."""
_TRIES_MAX = 8


async def forget_deleted(store: MetadataStore, namespace: str, stream: str) -> None:
    """Remove the pin and the assignment of a stream in every region, if it does not exist.

    Raises MetadataUnavailableError, IndeterminateError, CorruptionError.
    """
    key = stream_key(namespace, stream)
    for region in await assignment_regions(store):
        await forget_all_deleted(store, region, [key])


async def forget_all_deleted(store: MetadataStore, region: str, keys: Iterable[str]) -> int:
    """Remove the assignments of a region whose streams do not exist, among those of ``keys``.

    Examines at most ``STREAMS_MAX`` of them. Returns how many were removed. Raises
    MetadataUnavailableError, IndeterminateError, CorruptionError.
    """
    paths = {key: _path(key) for key in list(keys)[:STREAMS_MAX]}
    for _ in range(_TRIES_MAX):
        stored = await read_table(store, region)
        assigned = stored.table.addresses()
        examined = [key for key in paths if key in assigned]
        if not examined:
            return 0
        known = [path for key in examined if (path := paths[key])]
        found = dict(zip(known, await store.get_all(known), strict=True))
        deleted = [key for key in examined if found.get(paths[key]) is None]
        if not deleted:
            return 0
        absent: list[Operation] = [Check(path, None) for key in deleted if (path := paths[key])]
        if await write_table(
            store, region, stored, _without(stored.table, deleted), conditions=tuple(absent)
        ):
            return len(deleted)
    raise MetadataUnavailableError(
        f"the assignments of region {region} changed during {_TRIES_MAX} attempts"
    )


def _without(table: AssignmentTable, keys: Iterable[str]) -> AssignmentTable:
    for key in keys:
        table = table.without(key)
    return table


def _path(key: str) -> str:
    """Return the path of a stream; "" for a key that can name no stream."""
    namespace, _, stream = key.partition("/")
    try:
        return StreamPaths(namespace, stream).stream
    except InvalidArgumentError:
        return ""
