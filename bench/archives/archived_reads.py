"""Reading a stream whose only copy is its archive, beside a scan of the archive's Parquet files."""

import asyncio
import fcntl
import random
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ...chaos.managed_process import rhumbline_command
from ...client.connect import Client
from ...client.system_runtime import system_runtime
from ...coldstore.archive.segment_archiver import SegmentArchiver
from ...coldstore.stores.open_store import open_cold_store
from ...core.log.metadata.stream_store import StreamStore
from ...core.protocol.errors import GapError, InvariantBrokenError
from ...core.protocol.segments import Residence
from ..catch_up import READINGS
from ..harness.bookie_processes import REGION, BookieProcesses
from ..harness.load import NAMESPACE, ensure_namespace
from ..harness.workload import BenchWorkload
from ..readers.page_cache import drop_cached_files

_STREAM = "archived"
_BATCH = 1_000
_POOL_BYTES = 1 << 24
_SCAN = "parquet-scan"
_COMMAND = "stream-read"
_PIPE_BYTES = 1 << 20


async def measure_archived_reads(
    servers: BookieProcesses, folder: Path, *, count: int, size: int, repetitions: int
) -> AsyncIterator[dict[str, Any]]:
    """Write a stream, archive it, delete its ledgers, and yield a row per reading.

    The archive is below ``folder``, an absolute path. Each reading is done with a warm page cache
    and with a dropped one. The command ``stream read`` writes to a pipe, and its time includes the
    start of its process. Raises GapError if records are missing.
    """
    uri = f"file://{folder}"
    client = Client(
        servers.metadata, namespace=NAMESPACE, region=REGION, runtime=system_runtime(), cold=uri
    )
    async with client:
        await _archive(client, uri, count, size)
        files = await asyncio.to_thread(_parquet_files, folder)
        for is_cold in (False, True):
            for reading in (_SCAN, *READINGS, _COMMAND):
                for repetition in range(repetitions):
                    if is_cold:
                        drop_cached_files(files)
                    started = time.perf_counter()
                    if reading == _SCAN:
                        read = await asyncio.to_thread(_scan, files)
                    elif reading == _COMMAND:
                        read = await asyncio.to_thread(_run_command, servers, uri, size)
                    else:
                        read = await READINGS[reading](client, _STREAM, count)
                    seconds = time.perf_counter() - started
                    if read != count:
                        raise GapError(f"{read} of {count} records were read")
                    yield {
                        "w": "archived",
                        "peer": f"{reading}{'-cold' if is_cold else ''}",
                        "rep": repetition,
                        "size": size,
                        "rec_s": round(count / seconds),
                        "MB_s": round(count * size / seconds / 1e6, 2),
                    }


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


async def _archive(client: Client, uri: str, count: int, size: int) -> None:
    """Write the stream, archive its segments and delete their ledgers."""
    policy = replace(BenchWorkload("", "max", size).policy, hot_retention_ms=0)
    await ensure_namespace(client, policy)
    namespace = client.namespace()
    await namespace.create_stream(_STREAM, policy)
    pool = random.Random(size).randbytes(_POOL_BYTES + size)
    async with client.writer(_STREAM) as writer:
        for first in range(0, count, _BATCH):
            numbers = range(first, min(first + _BATCH, count))
            starts = [number * size % _POOL_BYTES for number in numbers]
            writer.append_many([pool[start : start + size] for start in starts])
            await writer.room()
        await writer.flush()
    cold = open_cold_store(uri)
    known = StreamStore(namespace.store, namespace.name)
    archiver = SegmentArchiver(client.runtime, cold, namespace.ledgers, known)
    for segment in (await namespace.describe(_STREAM)).segments:
        await archiver.archive(_STREAM, segment.lssn)
    await cold.close()
    await namespace.maintain(_STREAM)
    kept = (await namespace.describe(_STREAM)).segments
    if any(segment.residence is not Residence.ARCHIVE for segment in kept):
        raise InvariantBrokenError("a segment still has its ledger")


def _run_command(servers: BookieProcesses, uri: str, size: int) -> int:
    """Run ``stream read``, and return how many lines of ``size`` bytes its output amounts to."""
    options = ("-n", NAMESPACE, "-u", servers.metadata, "--region", REGION)
    command = rhumbline_command("stream", "read", _STREAM, *options, "--set", f"cluster.cold={uri}")
    buffer, printed = bytearray(_PIPE_BYTES), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        while read := process.stdout.readinto1(buffer):  # type: ignore[attr-defined]
            printed += read
    if process.returncode:
        raise InvariantBrokenError(f"stream read ended with exit code {process.returncode}")
    return printed // (size + len(b"\n"))


def _scan(files: list[Path]) -> int:
    """Read all columns of all files, as an application that scans the archive does."""
    return sum(
        batch.num_rows for file in files for batch in pq.ParquetFile(file).iter_batches(_BATCH)
    )
