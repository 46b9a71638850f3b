"""The migration fence of a store: a record of whether it may be used, or what replaced it.

Every write of every backend checks the fence in its own transaction, and every linearizable read
checks it too. Therefore, once a fence has been closed, no write that began earlier can take effect.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Protocol

from ..core.protocol.errors import CorruptionError, MetadataUnavailableError, StoreFencedError
from ..core.runtime.metadata_store import MetadataStore, Operation, Watch
from ..core.runtime.tasks import wait_until_done
from .transaction_plan import Node

FENCE_PATH = "/.rhumbline"
"""The path under which the watches of the fence are kept; callers cannot watch it themselves."""

CURRENT_WAIT_MS = 2_000
"""Time in which a store that is being opened should return the current state of its fence."""


@dataclass(frozen=True, slots=True)
class FenceState:
    """The state of a fence; it is open while ``successor`` is None.

    ``epoch`` is part of all versions and is new after each migration or loss of data. ``tree``
    identifies the content and moves with it to other stores. For a closed fence, ``successor`` is
    the URI of the store to use instead, ``mover`` is the migration attempt that may still write,
    and ``is_partial`` is True if the store is still being filled from ``successor``.
    """

    epoch: str
    tree: str
    successor: str | None = None
    mover: str | None = None
    is_partial: bool = False

    def check_open(self) -> None:
        """Raise StoreFencedError if another store is to be used instead."""
        if self.successor is not None:
            why = "is being filled from" if self.is_partial else "was replaced by"
            raise StoreFencedError(f"this store {why} {self.successor}")

    def check(self, allowed_fence: "FenceState | None") -> None:
        """Check that a write may pass: the fence is open, or is exactly ``allowed_fence``.

        Raises StoreFencedError.
        """
        if allowed_fence is None:
            self.check_open()
        elif self != allowed_fence:
            raise StoreFencedError("another migration attempt has taken over")

    def encode(self) -> bytes:
        """Return the stored form, JSON."""
        return json.dumps(asdict(self)).encode()


def decode_fence(data: bytes, where: str) -> FenceState:
    """Return the fence from its stored form. Raises CorruptionError; ``where`` is for its text."""
    try:
        state = json.loads(data)
        epoch = str(state["epoch"])
        tree = str(state.get("tree") or epoch)
        return FenceState(
            epoch, tree, state.get("successor"), state.get("mover"), bool(state.get("is_partial"))
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{where} is not a valid migration fence: {error}") from error


class MovableStore(MetadataStore, Protocol):
    """A store from which and to which metadata can be migrated."""

    async def fence_state(self, *, stale_ok: bool = False) -> FenceState:
        """Return the state of the fence, the current one unless ``stale_ok``.

        Raises MetadataUnavailableError.
        """
        ...

    async def swap_fence(self, old: FenceState, new: FenceState) -> bool:
        """Replace the fence if it is ``old``; False if it is not. Raises as any write."""
        ...

    def watch_fence(self, callback: Callable[[], None]) -> Watch:
        """Call ``callback`` after the fence changed; only a hint, like any watch."""
        ...

    def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        """Yield all nodes including the root, each once, in pages; works on a closed store too.

        The pages are a consistent snapshot only if nothing is written meanwhile. A page may lack a
        node that was deleted meanwhile.
        """
        ...

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        """Write despite the closed fence: ``operations`` as one transaction, then ``sequences``.

        ``sequences`` are minimum numbers for the next sequential child, by parent. Raises
        StoreFencedError if the fence is not ``fence``, and as ``txn``.
        """
        ...


async def read_first(read: Callable[..., Awaitable[FenceState]]) -> FenceState:
    """Return the state of the fence for a handle that is being opened.

    If the current state was not read within ``CURRENT_WAIT_MS``, an old one is sufficient, because
    every write and every linearizable read verifies it (rule STR-28). Raises what ``read`` raises.
    """
    current = asyncio.ensure_future(read(stale_ok=False))
    try:
        await asyncio.wait([current], timeout=CURRENT_WAIT_MS / 1000)
        if not current.done():
            with suppress(MetadataUnavailableError):
                return await read(stale_ok=True)
        return await current
    finally:
        current.cancel()
        await wait_until_done(current)
