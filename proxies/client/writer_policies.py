"""Reads the policies of the streams that writers open, once for writers that open together.

A process with a thousand producers opens them all when it starts. Without this, each of them would
have the proxy read the whole metadata of its stream, in the seconds in which the proxy also takes
those streams over.
"""

import asyncio
from collections.abc import Awaitable, Callable

from ...core.log.policy import StreamPolicy

Key = tuple[str, str]
"""Namespace and name of a stream."""


class WriterPolicies:
    """The policies that are being read now. For one event loop."""

    def __init__(self, read: Callable[[Key], Awaitable[StreamPolicy]]) -> None:
        """``read`` reads a policy; it has a deadline and raises NoSuchStreamError."""
        self._read = read
        self._waiting: dict[Key, list[asyncio.Future[StreamPolicy | None]]] = {}

    async def policy_of(self, key: Key) -> StreamPolicy:
        """Return the policy of a stream; a read that has begun serves all who wait for it.

        A result of such a read may be older than the call. That is harmless: a policy applies from
        the next segment on, and an append to a deleted stream fails. An error may be outdated too,
        for example if the stream was created meanwhile, so it is never shared. Raises as ``read``.
        """
        waiting = self._waiting.get(key)
        if waiting is not None:
            answer: asyncio.Future[StreamPolicy | None] = asyncio.get_running_loop().create_future()
            waiting.append(answer)
            policy = await answer
            return policy if policy is not None else await self._read(key)
        self._waiting[key] = waiting = []
        policy = None
        try:
            policy = await self._read(key)
        finally:
            del self._waiting[key]
            for answer in waiting:
                if not answer.done():
                    answer.set_result(policy)
        return policy
