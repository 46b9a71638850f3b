"""Small helpers of the checks: an error that must come, a condition that must come true."""

import asyncio
from collections.abc import Awaitable, Callable

from ...core.protocol.errors import RhumblineError
from ...core.runtime.metadata_store import MetadataStore

EVENTUALLY_MS = 15_000
QUIET_MS = 150


class Skipped(Exception):
    """The check cannot be made on this target; the message says why."""


async def raises(expected: type[RhumblineError], attempt: Awaitable[object]) -> None:
    """The attempt must raise this error, and no narrower or wider one."""
    try:
        result = await attempt
    except RhumblineError as error:
        assert type(error) is expected, f"{type(error).__name__} instead of {expected.__name__}"
        return
    raise AssertionError(f"no {expected.__name__}, but {result!r}")


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """The condition must come true, in reasonable time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + EVENTUALLY_MS / 1000
    while not await condition():
        assert loop.time() < deadline, f"not in {EVENTUALLY_MS} ms: {what}"
        await asyncio.sleep(0.01)


async def exists(store: MetadataStore, path: str) -> bool:
    """Whether there is a node."""
    parent, _, name = path.rpartition("/")
    return name in await store.children(parent or "/")


class ChangeSignal:
    """A watch callback that can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """The callback."""
        self.count += 1
        self._rung.set()

    async def heard(self, what: str) -> None:
        """Waits for a call since the last ``heard`` or ``quiet``."""
        try:
            async with asyncio.timeout(EVENTUALLY_MS / 1000):
                await self._rung.wait()
        except TimeoutError:
            raise AssertionError(f"the watch did not fire: {what}") from None
        self._rung.clear()

    async def quiet(self) -> None:
        """Waits until calls that are still due (hints may come late or twice) have come."""
        before = -1
        while before != self.count:
            before = self.count
            await asyncio.sleep(QUIET_MS / 1000)
        self._rung.clear()
