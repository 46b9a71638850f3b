"""Releases the streams that another proxy should serve (rule PRX-7).

The home region may have returned or changed, a proxy may have joined, or this proxy accepts no more
streams. A stream is released when that was so at two checks in a row, a few at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from ...core.protocol.errors import RhumblineError
from .owned_stream import OwnedStream
from .ownership import OwnershipState

_HOMES_PER_ROUND = 100
_STREAMS_AT_ONCE = 100
"""Streams that are examined before the event loop serves others."""
_MOVES_PER_ROUND = 16

Release = Callable[[OwnedStream], Awaitable[None]]


class MisplacedStreams:
    """The checks of one write proxy; the caller runs one round at a time."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._next_index = 0

    async def take_round(self, served: Sequence[OwnedStream]) -> None:
        """Read some home regions again, and release streams that were misplaced before, too."""
        await self._read_homes(served)
        moves = 0
        for number, stream in enumerate(served):
            if number % _STREAMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if stream.state is not OwnershipState.SERVED:
                continue
            was_misplaced, stream.is_misplaced = stream.is_misplaced, stream.is_elsewhere
            if was_misplaced and stream.is_misplaced and moves < _MOVES_PER_ROUND:
                moves += 1
                await self._release(stream)

    async def _read_homes(self, served: Sequence[OwnedStream]) -> None:
        end = self._next_index + _HOMES_PER_ROUND
        for stream in served[self._next_index : end]:
            assert stream.store is not None
            with suppress(RhumblineError):  # the next round reads it again
                stream.home = await stream.store.claims.home(stream.namespace, stream.name)
        self._next_index = end if end < len(served) else 0
