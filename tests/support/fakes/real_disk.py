"""A story on a disk of this machine."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from rhumbline.server.posix_disk import PosixDisk

Story = Callable[[PosixDisk], Coroutine[Any, Any, None]]


def with_disk(root: Path, story: Story) -> None:
    async def run() -> None:
        disk = PosixDisk(root)
        try:
            async with asyncio.timeout(20):
                await story(disk)
        finally:
            disk.close()

    asyncio.run(run())
