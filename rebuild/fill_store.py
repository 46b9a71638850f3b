"""Fills a metadata store with the nodes of a restore or rebuild, all of them or none (rule BAK-7).

The store's fence is closed first, and opened with a new epoch as the last step. In between no
process can use the store. An attempt that was interrupted is repeated, by any process, with the
same or other nodes; it takes over from the one before.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..backends.migration import (
    NodeCopy,
    batches,
    check_equal,
    differences,
    floor_ledger_ids,
    persistent,
    scan,
)
from ..backends.migration import set_fence as swap
from ..backends.migration_fence import FenceState, MovableStore
from ..core.protocol.errors import ForeignDataError
from ..core.runtime.metadata_store import parent_of

_SUCCESSOR = "restore:"
"""Beginning of the successor in the fence of a store that is being filled."""


class FillProgress(NamedTuple):
    """The progress: name of the step, nodes in all, nodes written."""

    step: str
    nodes: int
    done: int


async def fill_store(
    store: MovableStore,
    nodes: Mapping[str, bytes],
    sequences: Mapping[str, int],
    *,
    may_replace: bool,
    new_token: Callable[[], str],
    on_progress: Callable[[FillProgress], None] = lambda _: None,
) -> int:
    """Make ``nodes`` the content of the store and return their number. Safe to repeat.

    Raises ForeignDataError if the store is not empty (unless ``may_replace``) or was replaced by
    another one, MigrationError (another attempt has taken over, or the result differs), and as
    writes of the store.
    """
    before = await store.fence_state()
    is_continued = before.is_partial and (before.successor or "").startswith(_SUCCESSOR)
    if before.successor is not None and not is_continued:
        raise ForeignDataError(f"{store.uri} was replaced by {before.successor}")
    closed = replace(
        before, successor=f"{_SUCCESSOR}{new_token()}", mover=new_token(), is_partial=True
    )
    await swap(store, before, closed)
    present = await scan(store)
    if len(persistent(present)) > 1 and not is_continued and not may_replace:
        await swap(store, closed, FenceState(before.epoch, before.tree))
        raise ForeignDataError(f"{store.uri} is not empty: it holds {len(present) - 1} nodes")
    wanted = _with_parents(nodes, sequences)
    wanted["/"] = present["/"]
    floor_ledger_ids(wanted)  # a regional store may hold moved ledgers of the global one
    changes = differences(wanted, present)
    done = 0
    for batch in batches(changes):
        on_progress(FillProgress("writing", len(wanted), done))
        await store.load(batch, {}, closed)
        done += len(batch)
    raised = {path: node.sequence for path, node in wanted.items() if node.sequence}
    for path, number in raised.items():
        await store.load([], {path: number}, closed)
    on_progress(FillProgress("comparing", len(wanted), done))
    check_equal(wanted, await scan(store))
    token = new_token()
    await swap(store, closed, FenceState(f"g{token}", f"t{token}"))
    return len(wanted)


def _with_parents(nodes: Mapping[str, bytes], sequences: Mapping[str, int]) -> dict[str, NodeCopy]:
    wanted = {path: NodeCopy(data, sequences.get(path, 0)) for path, data in nodes.items()}
    for path in list(wanted):
        above = parent_of(path)
        while above != "/" and above not in wanted:
            wanted[above] = NodeCopy(b"", sequences.get(above, 0))
            above = parent_of(above)
    return wanted
