"""A bookie process of the lab, which formats new storage: ``-m ...wan.programs.bookie JSON``."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from .....backends.open_store import open_store
from .....client.system_runtime import run
from .....core.bookie.config import MIB, BookieConfig
from .....server.bookie_host import format_bookie, is_formatted, running_bookie
from ... import product_settings
from .durability_recorder import DurabilityRecorderDisk

READY = "serves as "
HOST = "127.0.0.1"


async def serve(settings: dict[str, Any]) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    directory = Path(settings["directory"])
    store = await open_store(settings["metadata"])
    try:
        if not is_formatted(directory):
            await format_bookie(
                directory,
                store,
                name=settings["name"],
                region=settings["region"],
                rack=settings["rack"],
            )
        config = BookieConfig(
            advertised_addresses=tuple(sorted(settings["addresses"].items())),
            session_ttl_ms=product_settings.BOOKIE_SESSION_MS,
            log_file_bytes=4 * MIB,
            space_check_ms=500,
            read_only_below_bytes=settings["read_only_below_bytes"],
            reserve_below_bytes=min(2 * MIB, settings["read_only_below_bytes"]),
        )
        async with running_bookie(
            directory,
            store,
            config,
            host=HOST,
            port=settings["port"],
            open_disk=lambda root: DurabilityRecorderDisk(root, Path(settings["notes"])),
        ) as bookie:
            print(f"{READY}{bookie.bookie_id}", flush=True)
            await stop.wait()
    finally:
        await store.close()


if __name__ == "__main__":
    run(serve(json.loads(sys.argv[1])))
