"""Tests of worker processes, with the process of catch-up readers, which needs no reader."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.bench.beside.catch_up_process import main
from rhumbline.bench.harness.worker_process import WorkerProcess
from rhumbline.core.protocol.errors import UnavailableError


def test_worker_gets_its_settings_and_responds_to_each_request(tmp_path: Path) -> None:
    async def run() -> list[bytes]:
        with WorkerProcess(tmp_path, "worker", main, b"[]") as worker:
            return [await worker.request(), await worker.request()]

    assert asyncio.run(run()) == [b"[]", b"[]"]


def test_worker_that_fails_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    async def run() -> bytes:
        with WorkerProcess(tmp_path, "worker", main, b"not JSON") as worker:
            return await worker.response()

    with pytest.raises(UnavailableError, match=r"worker has ended:[\s\S]*JSONDecodeError"):
        asyncio.run(run())


def test_response_is_awaited_for_a_bounded_time(tmp_path: Path) -> None:
    async def run() -> bytes:
        with WorkerProcess(tmp_path, "worker", main, b"[]") as worker:
            return await worker.response(seconds_max=0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
