"""Runs a test scenario on a real disk."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from rhumbline.server.posix_disk import PosixDisk

DiskScenario = Callable[[PosixDisk], Coroutine[Any, Any, None]]


def with_disk(root: Path, scenario: DiskScenario) -> None:
    async def run() -> None:
        disk = PosixDisk(root)
        try:
            async with asyncio.timeout(120):
                await scenario(disk)
        finally:
            disk.close()

    asyncio.run(run())
