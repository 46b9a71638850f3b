"""The audit after a run: reads the entries of every bookie, and the stream through Spark."""

import asyncio
import json
import time

from ....core.protocol.dlsn import Dlsn
from ....core.protocol.ledger_metadata import LedgerMetadata
from ....regions.repair.entry_ranges import settled_ranges
from ...checker.history import RecordedRead
from ...checker.run_record import EntryCopy
from ...managed_process import python_command
from ...simulation.entry_probe import read_entries
from .cluster import WanCluster
from .processes import Program
from .programs import app
from .programs.bookie import HOST

Copies = dict[int, dict[tuple[int, str], EntryCopy]]
"""By ledger id: the copy of each (entry id, bookie id)."""

_QUERY_S_MAX = 240.0
_POLL_S = 0.1


def regions_of_ids(cluster: WanCluster) -> dict[str, str]:
    """Return the region of every bookie id that existed during the run."""
    return {
        incarnation.bookie_id: incarnation.region
        for bookie in cluster.bookies
        for incarnation in bookie.incarnations
    }


async def probe_bookies(
    cluster: WanCluster, ledgers: list[LedgerMetadata]
) -> tuple[Copies, set[str]]:
    """Return the copies that bookies hold of closed ledgers, and the ids of unreachable bookies."""
    copies: Copies = {metadata.ledger_id: {} for metadata in ledgers}
    unreachable = set()
    for bookie in cluster.bookies:
        found = await read_entries((HOST, bookie.port), bookie.bookie_id, ledgers)
        if found is None:
            unreachable.add(bookie.bookie_id)
            continue
        for (ledger_id, entry_id), copy in found.items():
            copies[ledger_id][entry_id, bookie.bookie_id] = copy
    return copies, unreachable


async def missing_copies(
    cluster: WanCluster, ledgers: list[LedgerMetadata], regions_min: int
) -> list[str]:
    """Return the closed fragments that lack a copy or lie in fewer than ``regions_min`` regions."""
    regions = regions_of_ids(cluster)
    copies, _ = await probe_bookies(cluster, ledgers)
    problems = []
    for metadata in ledgers:
        for entry_range in settled_ranges(metadata):
            where = f"ledger {metadata.ledger_id} from {entry_range.first}"
            found = {regions[bookie] for bookie in entry_range.fragment.bookies}
            if len(found) < regions_min:
                problems.append(f"{where}: copies only in regions {sorted(found)}")
            for entry_id in range(entry_range.first, entry_range.last + 1):
                for index in entry_range.quorum.write_set(entry_id):
                    bookie = entry_range.fragment.bookies[index]
                    if (entry_id, str(bookie)) not in copies[metadata.ledger_id]:
                        problems.append(f"{where}: bookie {bookie} misses entry {entry_id}")
    return problems


async def query_differences(
    cluster: WanCluster, region: str, read: RecordedRead, until: str
) -> list[str]:
    """Compare a Spark query up to ``until`` with the records of a complete reader."""
    rows = cluster.folder / "rows"
    config = {
        "options": {
            "metadata": cluster.uri(region),
            "archive": cluster.cold.as_uri(),
            "namespace": app.NAMESPACE,
            "region": region,
        },
        "start": None if read.start is None else str(read.start),
        "until": until,
        "rows": str(rows),
    }
    command = python_command("chaos.lab.wan.programs.spark_query", json.dumps(config))
    program = Program("query", region, command, cluster.folder / "query.log")
    program.launch()
    try:
        deadline = time.monotonic() + _QUERY_S_MAX
        while program.is_running and time.monotonic() < deadline:  # noqa: ASYNC110 - a process
            await asyncio.sleep(_POLL_S)
    finally:
        program.kill()
    if not rows.exists():
        return [f"the Spark query failed:\n{program.end_of_log()}"]
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    found = sorted((Dlsn.parse(dlsn), payload) for dlsn, payload in lines)
    wanted = sorted((record.dlsn, record.payload.decode("latin-1")) for record in read.records)
    if found == wanted:
        return []
    return [f"{len(found)} rows that differ from the {len(wanted)} delivered records"]
