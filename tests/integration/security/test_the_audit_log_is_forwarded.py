"""``security forward-audit`` appends the lines of an audit log to a stream, through a proxy."""

import asyncio
import json
import time
from pathlib import Path
from random import Random

from rhumbline import connect
from rhumbline.access.audit_log import AuditLog
from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.security.audit import AuditEvent, AuditResult
from rhumbline.security.audit_settings import AuditSettings
from rhumbline.testing import LocalServer, LocalServerFactory

STREAM = "audit"


def record(file: Path, numbers: range) -> None:
    """Write events as servers do, to files that are renamed at 4 KiB."""
    for first in numbers[::10]:
        log = AuditLog(AuditSettings(file=str(file), file_bytes_max=4096, files_kept=100), "test")
        for number in range(first, first + 10):
            log.record(AuditEvent("act", AuditResult.DONE, resource=f"stream:default/{number}"))
        log.close()


def forwarder(server: LocalServer, file: Path, folder: Path, *options: str) -> ManagedProcess:
    """Start a forwarder."""
    command = rhumbline_command(
        "security", "forward-audit", STREAM, *options, "--via", server.uri,
        "--set", f"audit.file={file}",
    )  # fmt: skip
    process = ManagedProcess("forward-audit", command, folder / "forward.log")
    process.launch()
    return process


async def stored(server: LocalServer) -> list[str]:
    """Return the resources that the lines in the stream name."""
    found: list[str] = []
    async with asyncio.timeout(30), connect(server.uri) as client:
        end = await client.namespace().end(STREAM)
        async with client.reader(STREAM, EARLIEST) as reader:
            while (batch := await reader.next_batch(until=end)) is not None:
                found += [json.loads(bytes(line))["resource"] for line in batch.payloads()]
    return found


def test_lines_are_in_the_stream_once_and_in_order_although_forwarders_are_killed(
    rhumbline_server: LocalServerFactory, tmp_path: Path
) -> None:
    server, file = rhumbline_server(tls=False), tmp_path / "audit.jsonl"
    random, position = Random(1), tmp_path / "audit.jsonl.forwarded"
    for first in range(0, 100, 50):
        record(file, range(first, first + 50))
        before = position.read_bytes() if position.exists() else b""
        process = forwarder(server, file, tmp_path)
        deadline = time.monotonic() + 60
        while not position.exists() or position.read_bytes() == before:
            assert time.monotonic() < deadline, process.end_of_log()
            time.sleep(0.001)
        time.sleep(random.random() / 100)
        process.kill()
    last = forwarder(server, file, tmp_path, "--once")
    assert last.wait(60) == 0, last.end_of_log()
    assert asyncio.run(stored(server)) == [f"stream:default/{number}" for number in range(100)]
    assert len(list(tmp_path.glob("audit.jsonl.[0-9]*"))) > 1
