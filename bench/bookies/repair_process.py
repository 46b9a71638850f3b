"""A repair process of a benchmark, as an operator would run it."""

import os
from pathlib import Path
from typing import Any

from ...chaos.managed_process import ManagedProcess, rhumbline_command
from ...chaos.server_processes import STATUS_URL, status_port
from ...client.connect import Client
from ...core.protocol.bookie_id import BookieId
from ...regions.repair.progress import RemainingCopies, count_remaining
from ...regions.repair.task_store import TaskStore
from ...server.status_server import fetch_status
from ..harness.wan_links import HOST

_STATUS_TIMEOUT_MS = 5_000


def repair_process(root: Path, metadata: str, region: str, *options: str) -> ManagedProcess:
    """Return a process that runs within a ``with`` block; its log is below ``root``."""
    return ManagedProcess(
        "repair",
        rhumbline_command("repair", "run", "-u", metadata, "--region", region, *options),
        root / "repair.log",
        environ=os.environ,
        ready=STATUS_URL,
    )


async def repair_status(repair: ManagedProcess) -> dict[str, Any]:
    """Return the statistics of a repair process. Raises OSError, TimeoutError."""
    return await fetch_status(HOST, status_port(repair), "/stat", timeout_ms=_STATUS_TIMEOUT_MS)


async def remaining_copies(client: Client, bookie: BookieId) -> RemainingCopies:
    """Count the copies that the metadata of ledgers still names on a bookie."""
    return await count_remaining(
        client.ledger_store,
        client.directory,
        TaskStore(client.store),
        lambda member, _: member == bookie,
    )
