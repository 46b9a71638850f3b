"""Assertions that the checks share: expected errors, eventual conditions, fired watches."""

import asyncio
from collections.abc import Awaitable, Callable

from ...core.protocol.errors import RhumblineError
from ...core.runtime.metadata_store import MetadataStore

EVENTUALLY_MS = 15_000
QUIET_MS = 150


class Skipped(Exception):
    """The check does not apply to this store; the message says why."""


async def raises(expected: type[RhumblineError], attempt: Awaitable[object]) -> None:
    """Require that ``attempt`` raises exactly the class ``expected``, not a subclass of it."""
    try:
        result = await attempt
    except RhumblineError as error:
        assert type(error) is expected, f"raised {type(error).__name__}, not {expected.__name__}"
        return
    raise AssertionError(f"returned {result!r} instead of raising {expected.__name__}")


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Require that ``condition`` becomes true within ``EVENTUALLY_MS``."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + EVENTUALLY_MS / 1000
    while not await condition():
        assert loop.time() < deadline, f"not within {EVENTUALLY_MS} ms: {what}"
        await asyncio.sleep(0.01)


async def exists(store: MetadataStore, path: str) -> bool:
    """Return whether a node exists."""
    parent, _, name = path.rpartition("/")
    return name in await store.children(parent or "/")


class ChangeSignal:
    """A watch callback whose calls can be awaited and counted."""

    def __init__(self) -> None:
        self.count = 0
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Record a call; pass this method as the callback."""
        self.count += 1
        self._notified.set()

    async def wait_notified(self, what: str) -> None:
        """Wait for a call since the last ``wait_notified`` or ``drain``."""
        try:
            async with asyncio.timeout(EVENTUALLY_MS / 1000):
                await self._notified.wait()
        except TimeoutError:
            raise AssertionError(f"no watch fired within {EVENTUALLY_MS} ms: {what}") from None
        self._notified.clear()

    async def drain(self) -> None:
        """Wait until no call arrives for ``QUIET_MS``, since hints may be late or repeated."""
        before = -1
        while before != self.count:
            before = self.count
            await asyncio.sleep(QUIET_MS / 1000)
        self._notified.clear()
