"""One sitting: everything that is measured of each metadata store, as one JSON document."""

import json
import os
import platform
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...chaos.lab.wan.cluster import SERVERS
from ...chaos.lab.wan.metadata.etcd import etcd_binary
from ...chaos.lab.wan.metadata.zookeeper import VERSION as ZOOKEEPER_VERSION
from ...core.protocol.errors import InvalidArgumentError
from .distant_regions import measure_regions
from .ensembles import KINDS, running_ensemble
from .fault_runs import measure_ensemble_faults, measure_sqlite_faults
from .operations import measure_operations
from .scale import measure_children, measure_watches

MEMORY = "memory"
SQLITE = "sqlite"
STORES = (MEMORY, SQLITE, *KINDS)
PARTS = ("operations", "watches", "children", "faults", "regions")


@dataclass(frozen=True, slots=True)
class SittingSize:
    """The amounts that are measured."""

    seconds: float
    """Length of each timed window."""
    watches: int
    children: int
    fault_s: float
    """Length of each fault."""
    rtt_ms: int
    """Round trip between regions."""


async def measure_store(
    store: str, folder: Path, parts: Sequence[str], size: SittingSize, note: Callable[[str], None]
) -> dict[str, Any]:
    """Return the results of one store by part; ``note`` is called before each part.

    Raises InvalidArgumentError for an unknown store, ConfigurationError if its server is missing.
    """
    if store not in STORES:
        raise InvalidArgumentError(f"unknown store {store} (known: {', '.join(STORES)})")
    found: dict[str, Any] = {"version": _version(store), **conditions(size)}
    async with _one_server(store, folder) as uri:
        found.update(await measure_uri(uri, parts, size, note))
    for part in ("faults", "regions"):
        if part not in parts or (store == MEMORY) or (store == SQLITE and part == "regions"):
            continue
        note(f"{store}: {part}")
        below = folder / f"{store}-{part}"
        below.mkdir()
        if part == "regions":
            found[part] = await measure_regions(store, below, size.rtt_ms, size.seconds)
        elif store == SQLITE:
            found[part] = await measure_sqlite_faults(below, size.fault_s)
        else:
            found[part] = await measure_ensemble_faults(store, below, size.fault_s)
    return found


async def measure_uri(
    uri: str, parts: Sequence[str], size: SittingSize, note: Callable[[str], None]
) -> dict[str, Any]:
    """Return the results of the parts that need no control of the store's servers."""
    scheme = uri.partition(":")[0]
    found: dict[str, Any] = {}
    if "operations" in parts:
        note(f"{scheme}: operations")
        found["operations"] = await measure_operations(
            uri, size.seconds, has_processes=scheme != MEMORY
        )
    if "watches" in parts:
        note(f"{scheme}: watches")
        found["watches"] = await measure_watches(uri, size.watches)
    if "children" in parts:
        note(f"{scheme}: children")
        found["children"] = await measure_children(uri, size.children)
    return found


def conditions(size: SittingSize) -> dict[str, Any]:
    """Return what the results depend on: day, machine, load and the amounts."""
    load = os.getloadavg()[0]
    day = datetime.now(UTC).date().isoformat()
    return {
        "measured": f"{day}, {os.cpu_count()} cores, load {load:.1f}",
        "size": asdict(size),
    }


def merge_results(file: Path, store: str, found: dict[str, Any]) -> None:
    """Write the results of a store into the JSON document, and keep those of other stores."""
    document: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    document[store] = {**document.get(store, {}), **found}
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


@asynccontextmanager
async def _one_server(store: str, folder: Path) -> AsyncIterator[str]:
    if store == MEMORY:
        yield f"memory:bench-{os.urandom(4).hex()}"
    elif store == SQLITE:
        yield f"sqlite://{folder}/bench.db"
    else:
        below = folder / store
        below.mkdir()
        async with running_ensemble(store, below, 1) as ensemble:
            yield ensemble.uri(is_direct=True)


def _version(store: str) -> str:
    if store == MEMORY:
        return f"Python {platform.python_version()}"
    if store == SQLITE:
        return f"SQLite {sqlite3.sqlite_version}"
    if store == "zookeeper":
        return f"ZooKeeper {ZOOKEEPER_VERSION}"
    command = [str(etcd_binary(SERVERS)), "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    return f"etcd {shown.splitlines()[0].rpartition(' ')[2]}"
