"""The applications of a game day: ``-m ...game_day.load PROXIES RATE FILE STREAM...``.

A producer for each stream appends numbered records through the write proxies, RATE per second over
all streams, until the process is killed. FILE gets a line for each outcome:
``STREAM NUMBER acked|unknown TIME``, with the monotonic clock of the machine.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress

from ....client.connect import connect_proxies
from ....client.system_runtime import run
from ....core.log.write.batch import Append
from ....core.protocol.errors import RhumblineError
from ....core.runtime.tasks import Tasks
from ....proxies.client.proxy_client import ProxyClient
from ....proxies.client.proxy_writer import ProxyWriter

READY = "the applications write"

_UNKNOWN_MAX = 2_000
"""Records of one stream that may wait for their outcome; the producer pauses above it."""

_RETRY_S = 0.5


class LoadProducer:
    """Appends to one stream."""

    def __init__(self, stream: str, pause_s: float, file: int) -> None:
        self._stream = stream
        self._pause_s = pause_s
        self._file = file
        self._number = 0
        self._tasks = Tasks()

    async def run(self, client: ProxyClient) -> None:
        """Append until cancelled; after an error continue with the next number."""
        while True:
            with suppress(RhumblineError):
                await self._append_all(await client.namespace().open_writer(self._stream))
            await asyncio.sleep(_RETRY_S)

    async def _append_all(self, writer: ProxyWriter) -> None:
        while True:
            if len(self._tasks) < _UNKNOWN_MAX:
                number, self._number = self._number, self._number + 1
                ticket = writer.append(b"%09d" % number)
                self._tasks.spawn(self._record(ticket, number), "record outcome")
            await asyncio.sleep(self._pause_s)

    async def _record(self, ticket: Append, number: int) -> None:
        outcome = "acked"
        try:
            await ticket
        except RhumblineError:
            outcome = "unknown"
        line = f"{self._stream} {number} {outcome} {time.monotonic():.3f}\n"
        os.write(self._file, line.encode())


async def main(proxies: str, rate: str, path: str, *streams: str) -> None:
    """Write until killed."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
    async with connect_proxies(proxies) as client:
        print(READY, flush=True)
        pause_s = len(streams) / float(rate)
        await asyncio.gather(
            *(LoadProducer(stream, pause_s, file).run(client) for stream in streams)
        )


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
