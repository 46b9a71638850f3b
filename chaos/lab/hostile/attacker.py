"""``python -m rhumbline.chaos.lab.hostile.attacker``: the program of a stranger.

It opens connections that stay idle or begin a handshake and go on byte by byte, prints a line, and
waits for one on its standard input. Then it sends malformed messages to all ports, prints the
counts as JSON, and ends. It has no certificate, and the lowest priority: an attacker does not use
the processors of those that it attacks.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from .messages import batch_of

_HOST = "127.0.0.1"
_CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_SLOW_SHARE = 10
"""One of so many held connections sends a handshake byte by byte; the others send nothing."""
_SLOW_PAUSE_S = 1.0
_BATCH = 500
_BATCHES_DRAWN = 20
_AT_ONCE = 10
_SILENCE_S = 0.5
_OPENING_S_MAX = 5.0


class Attacker:
    """The connections and counts of the attack."""

    def __init__(self, ports: Sequence[tuple[str, int]], seed: int) -> None:
        self._ports = ports
        self._random = Random(seed)
        self.counts: Counter[str] = Counter()
        self._held: list[asyncio.StreamWriter] = []
        self._slow: list[asyncio.Task[None]] = []

    async def hold(self, count: int) -> None:
        """Open ``count`` connections, in turn to each port."""
        for number in range(count):
            _, port = self._ports[number % len(self._ports)]
            writer = await _open(port)
            if writer is None:
                self.counts["connections refused"] += 1
                continue
            self._held.append(writer)
            if number // len(self._ports) % _SLOW_SHARE == 0:
                self._slow.append(asyncio.create_task(_send_slowly(writer)))

    @property
    def held_count(self) -> int:
        """Number of held connections that no server has closed."""
        return sum(not writer.transport.is_closing() for writer in self._held)

    async def flood(self, frames: int) -> None:
        """Send at least ``frames`` messages to each port."""
        slots = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for kind, port in self._ports:
                drawn = [batch_of(kind, _BATCH, self._random) for _ in range(_BATCHES_DRAWN)]
                for number in range(-(-frames // _BATCH)):
                    batch = drawn[number % len(drawn)]
                    await slots.acquire()
                    task = group.create_task(self._send(kind, port, batch))
                    task.add_done_callback(lambda _: slots.release())

    async def close(self) -> None:
        """Close everything."""
        for task in self._slow:
            task.cancel()
        await asyncio.gather(*self._slow, return_exceptions=True)
        for writer in self._held:
            writer.transport.abort()

    async def _send(self, kind: str, port: int, batch: bytes) -> None:
        try:
            async with asyncio.timeout(_OPENING_S_MAX):
                reader, writer = await asyncio.open_connection(_HOST, port)
        except (OSError, TimeoutError):
            self.counts[f"{kind}: connections refused"] += 1
            return
        try:
            async with asyncio.timeout(_SILENCE_S):
                writer.write(batch)
                while await reader.read(1 << 16):
                    self.counts[f"{kind}: chunks received"] += 1
            self.counts[f"{kind}: connections closed by the server"] += 1
        except ConnectionError:
            self.counts[f"{kind}: connections closed by the server"] += 1
        except TimeoutError:
            self.counts[f"{kind}: connections left open"] += 1
        finally:
            writer.transport.abort()
        self.counts[f"{kind}: messages"] += _BATCH


async def _open(port: int) -> asyncio.StreamWriter | None:
    try:
        async with asyncio.timeout(_OPENING_S_MAX):
            _, writer = await asyncio.open_connection(_HOST, port)
    except (OSError, TimeoutError):
        return None
    return writer


async def _send_slowly(writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        for byte in _CLIENT_HELLO:
            writer.write(bytes((byte,)))
            await asyncio.sleep(_SLOW_PAUSE_S)


async def _attack(ports: Sequence[tuple[str, int]], connections: int, frames: int) -> None:
    attacker = Attacker(ports, seed=1)
    await attacker.hold(connections)
    print("holding", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    held = attacker.held_count
    await attacker.flood(frames)
    counts = {"idle connections that were left open": held, **attacker.counts}
    print(json.dumps(counts), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await attacker.close()


def main(arguments: Sequence[str]) -> None:
    """Attack the ports that the arguments name, as KIND:PORT."""
    parser = argparse.ArgumentParser(prog="attacker")
    parser.add_argument("ports", nargs="+", metavar="KIND:PORT")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--frames", type=int, required=True)
    options = parser.parse_args(arguments)
    os.nice(19)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    pairs = [text.split(":") for text in options.ports]
    ports = [(kind, int(port)) for kind, port in pairs]
    asyncio.run(_attack(ports, options.connections, options.frames))


if __name__ == "__main__":
    main(sys.argv[1:])
