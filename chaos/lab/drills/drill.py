"""A drill: what happens, what must be true meanwhile and afterwards, and the load that runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from ....core.log.api.log_client import LogClient
from ....core.protocol.errors import RhumblineError
from ....core.runtime.tasks import Tasks

_PAUSE_S = 0.01
_ONCE_S_MAX = 10.0


class DrillOutcome(NamedTuple):
    """An expectation of a drill, and what was found."""

    expected: str
    is_met: bool
    found: str = ""

    def __str__(self) -> str:
        found = f" ({self.found})" if self.found else ""
        return f"{'ok  ' if self.is_met else 'FAIL'} {self.expected}{found}"


class SteadyAppends:
    """An application that appends numbers one by one, and begins again after a refusal."""

    def __init__(self, client: LogClient, stream: str) -> None:
        self.stream = stream
        self.acknowledged: list[tuple[int, float]] = []
        """Each acknowledged number, with the time of the acknowledgement on the loop's clock."""
        self.errors: list[tuple[RhumblineError, float]] = []
        self.longest_gap_ms = 0.0
        self._client = client

    async def run(self) -> None:
        """Append until the task is cancelled."""
        now, number = asyncio.get_running_loop().time, 0
        last = now()
        while True:
            try:
                async with self._client.writer(self.stream) as writer:
                    while True:
                        number += 1
                        await writer.append(b"%d" % number)
                        at = now()
                        self.acknowledged.append((number, at))
                        self.longest_gap_ms = max(self.longest_gap_ms, (at - last) * 1000)
                        last = at
                        await asyncio.sleep(_PAUSE_S)
            except RhumblineError as error:
                self.errors.append((error, now()))
                await asyncio.sleep(_PAUSE_S)

    async def wait_for(self, more: int) -> None:
        """Wait until so many more numbers are acknowledged. Raises TimeoutError after 30 s."""
        wanted = len(self.acknowledged) + more
        async with asyncio.timeout(30):
            while len(self.acknowledged) < wanted:  # noqa: ASYNC110 - it is a number
                await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def running(*loads: SteadyAppends) -> AsyncIterator[None]:
    """Run the loads until the block ends."""
    tasks = Tasks()
    for load in loads:
        tasks.spawn(load.run(), load.stream)
    try:
        for load in loads:
            await load.wait_for(20)
        yield
    finally:
        await tasks.aclose()


async def append_once(client: LogClient, stream: str) -> Exception | None:
    """Append a record with a new client; return the error, or that it took too long."""
    try:
        async with asyncio.timeout(_ONCE_S_MAX), client, client.writer(stream) as writer:
            await writer.append(b"0")
    except (RhumblineError, TimeoutError) as error:
        return error
    return None
