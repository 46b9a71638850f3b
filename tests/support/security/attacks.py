"""Parts of attacks on running servers, and what the audit log must say about them."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from rhumbline.core.log.api.log_writer import LogWriter
from rhumbline.security.audit import AuditEvent

HOST = "127.0.0.1"


class Recorded:
    """Counts audit events: by action, result and error, and by the client's address and error."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.errors_of_peers: Counter[tuple[str, str]] = Counter()

    def record(self, event: AuditEvent) -> None:
        self.counts[event.action, event.result, event.error] += 1
        self.errors_of_peers[event.peer, event.error] += 1


class Answer(NamedTuple):
    """What a server answered, and the address that it was asked from."""

    data: bytes
    sender: str


async def ask(port: int, data: bytes) -> Answer:
    """Send bytes on a new connection; return the response until the server closes it, or stops."""
    reader, writer = await asyncio.open_connection(HOST, port)
    sender = "{}:{}".format(*writer.get_extra_info("sockname"))
    found = b""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(1):
            writer.write(data)
            while chunk := await reader.read(1 << 16):
                found += chunk
    writer.close()
    return Answer(found, sender)


async def append_some(writer: LogWriter, count: int) -> float:
    """Append records one by one; return the median time in ms."""
    loop, took = asyncio.get_running_loop(), []
    for number in range(count):
        began = loop.time()
        await writer.append(b"planted payload %d" % number)
        took.append(loop.time() - began)
    return sorted(took)[count // 2] * 1000
