"""The clients of the workload: ``python -m ...chaos.kafka.clients JSON``.

All clients of a process share nothing but its event loop; each has connections of its own. A client
executes one operation after the other, chosen at random, and records it when it has ended. The
process ends on SIGTERM, once each client has ended its last operation. With ``is_final`` it reads
every log from its start to its end instead.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

from ...client.connect import connect
from ...client.system_runtime import run
from ...core.log.api.log_client import LogClient
from ...core.log.api.log_writer import LogWriter
from ...core.protocol.dlsn import FIRST_DLSN, Dlsn
from ...core.protocol.errors import RhumblineError, UnknownOutcomeError
from ...core.runtime.tasks import run_all
from .operations import (
    CommitOffset,
    KeyPoll,
    ListCommitted,
    Offset,
    Operation,
    Send,
    SendOutcome,
    encode,
)

READY = "the clients are ready"
SUBSCRIPTION = "kafka"
"""The subscription of each stream whose position is the committed offset of the key."""

_FINAL_POLL_S_MAX = 120.0
_POLL_S_MAX = 10.0
_MESSAGES_MAX = 20
"""Number of messages after which a poll ends."""
_CLIENT_NUMBERS = 1_000_000
"""Values that one client may send."""
_ACTIONS = {"send": 8, "poll": 8, "commit": 3, "list": 2, "assign": 1}
"""The weight of each action in the choice of the next one."""


class KafkaClient:
    """One client: executes operations in sequence and passes each of them to ``record``."""

    def __init__(
        self, number: int, client: LogClient, keys: list[str], record: Callable[[Operation], None]
    ) -> None:
        self.number = number
        self._client = client
        self._keys = keys
        self._record = record
        self._random = Random(f"kafka client {number} {len(keys)}")
        self._writers: dict[str, LogWriter] = {}
        self._sent = 0
        self._assignment = 0
        self._positions: dict[str, Dlsn] = {}
        """Where the next poll of each assigned key begins."""

    async def work(self, stop: asyncio.Event, pause_s: float) -> None:
        """Execute random operations until ``stop`` is set."""
        actions = {
            "send": self._send,
            "poll": self._poll_all,
            "commit": self._commit,
            "list": self._list_all,
            "assign": self._assign,
        }
        await self._assign()
        while not stop.is_set():
            [action] = self._random.choices(list(_ACTIONS), list(_ACTIONS.values()))
            await actions[action]()
            await asyncio.sleep(self._random.random() * 2 * pause_s)

    async def close(self) -> None:
        """Close the writers. What they have sent was awaited before."""
        for writer in self._writers.values():
            await writer.abort()

    async def poll_to_end(self) -> None:
        """Read every log completely. Errors are retried until the time is up."""
        for key in self._keys:
            async with asyncio.timeout(_FINAL_POLL_S_MAX):
                is_read = await self._poll(key, FIRST_DLSN, is_final=True)
                while not is_read:
                    await asyncio.sleep(0.5)
                    is_read = await self._poll(key, FIRST_DLSN, is_final=True)

    # --- the actions ------------------------------------------------------------------------------

    async def _send(self) -> None:
        key = self._random.choice(self._keys)
        self._sent += 1
        value = self.number * _CLIENT_NUMBERS + self._sent
        called, outcome, offset = time.monotonic(), SendOutcome.OK, None
        try:
            if key not in self._writers:
                self._writers[key] = await self._client.namespace().open_writer(key)
            offset = _offset((await self._writers[key].append(str(value).encode())).dlsn)
        except UnknownOutcomeError:
            outcome = SendOutcome.UNKNOWN
        except RhumblineError:
            outcome = SendOutcome.FAILED
        if outcome is not SendOutcome.OK and key in self._writers:
            await self._writers.pop(key).abort()
        self._record(
            Send(
                client=self.number,
                called=called,
                returned=time.monotonic(),
                key=key,
                value=value,
                outcome=outcome,
                offset=offset,
            )
        )

    async def _poll_all(self) -> None:
        for key in list(self._positions):
            await self._poll(key, self._positions[key])

    async def _poll(self, key: str, start: Dlsn, *, is_final: bool = False) -> bool:
        """Read messages of a key from ``start`` to its present end. Return False after an error,
        which has no effect."""
        called = time.monotonic()
        messages: list[tuple[Offset, int]] = []
        try:
            async with asyncio.timeout(_FINAL_POLL_S_MAX if is_final else _POLL_S_MAX):
                end = await self._client.namespace().end(key)
                async with self._client.reader(key, start) as reader:
                    while is_final or len(messages) < _MESSAGES_MAX:
                        batch = await reader.next_batch(until=end)
                        if batch is None:
                            break
                        records = batch.records()
                        messages += [(_offset(one.dlsn), int(one.payload)) for one in records]
                    position = reader.position
        except (RhumblineError, TimeoutError):
            return False
        if not is_final:
            self._positions[key] = position
        self._record(
            KeyPoll(
                client=self.number,
                called=called,
                returned=time.monotonic(),
                key=key,
                assignment=self._assignment,
                start=_offset(start),
                messages=tuple(messages),
                is_final=is_final,
            )
        )
        return True

    async def _commit(self) -> None:
        """Commit what was polled of one key."""
        if not self._positions:
            return
        key = self._random.choice(list(self._positions))
        position = self._positions[key]
        called, is_confirmed = time.monotonic(), True
        subscriptions = self._client.namespace().subscriptions
        try:
            held = await subscriptions.read(key, SUBSCRIPTION)
            await subscriptions.commit(held, key, position)
        except RhumblineError:
            is_confirmed = False
        self._record(
            CommitOffset(
                client=self.number,
                called=called,
                returned=time.monotonic(),
                key=key,
                offset=_offset(position),
                is_confirmed=is_confirmed,
            )
        )

    async def _list_all(self) -> None:
        for key in self._keys:
            await self._list(key)

    async def _list(self, key: str) -> Dlsn | None:
        """Return the committed offset of a key; None after an error."""
        called = time.monotonic()
        try:
            held = await self._client.namespace().subscriptions.read(key, SUBSCRIPTION)
        except RhumblineError:
            return None
        self._record(
            ListCommitted(
                client=self.number,
                called=called,
                returned=time.monotonic(),
                key=key,
                offset=_offset(held.position),
            )
        )
        return held.position

    async def _assign(self) -> None:
        """Begin anew with some of the keys, at their committed offsets."""
        self._assignment += 1
        self._positions = {}
        for key in self._random.sample(self._keys, self._random.randint(1, len(self._keys))):
            position = await self._list(key)
            if position is not None:
                self._positions[key] = position


def _offset(position: Dlsn) -> Offset:
    return (position.lssn, position.entry_id, position.slot)


async def _work(
    config: dict[str, Any], number: int, stop: asyncio.Event, record: Callable[[Operation], None]
) -> None:
    async with connect(config["uri"], region=config["region"]) as connection:
        client = KafkaClient(number, connection, config["keys"], record)
        await client.work(stop, config["pause_s"])
        await client.close()


async def main(config: dict[str, Any]) -> None:
    """Run the clients until SIGTERM, and then the final polls if ``config`` asks for them."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    file = os.open(config["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def record(operation: Operation) -> None:
        os.write(file, f"{encode(operation)}\n".encode())

    print(READY, flush=True)
    if not config["is_final"]:
        works = [_work(config, number, stop, record) for number in config["numbers"]]
        await run_all(works, "clients")
        return
    async with connect(config["uri"], region=config["region"]) as connection:
        [number] = config["numbers"]
        await KafkaClient(number, connection, config["keys"], record).poll_to_end()


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
