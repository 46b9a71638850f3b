"""What is asked after a run: every bookie for its entries, Spark for the whole stream."""

import asyncio
import json
import time

from ....core.protocol.ledger_metadata import LedgerMetadata
from ....regions.repair.entry_ranges import settled_spans
from ...checker.history import RecordedRead
from ...checker.run_record import EntryCopy
from ...simulation.entry_probe import probe
from .cluster import WanCluster
from .processes import Program, python
from .programs import app
from .programs.bookie import HOST

Copies = dict[int, dict[tuple[int, str], EntryCopy]]
"""By ledger: (entry, bookie id) to what that bookie has."""

_QUERY_S_MAX = 240.0
_LOOK_S = 0.1


def regions_of_ids(cluster: WanCluster) -> dict[str, str]:
    """The region of every bookie id that there was."""
    return {one.bookie_id: one.region for bookie in cluster.bookies for one in bookie.incarnations}


async def ask_all(cluster: WanCluster, ledgers: list[LedgerMetadata]) -> tuple[Copies, set[str]]:
    """What bookies have of closed ledgers, and the ids of those that do not answer."""
    copies: Copies = {one.ledger_id: {} for one in ledgers}
    unasked = set()
    for bookie in cluster.bookies:
        found = await probe((HOST, bookie.port), bookie.bookie_id, ledgers)
        if found is None:
            unasked.add(bookie.bookie_id)
            continue
        for (ledger_id, entry_id), copy in found.items():
            copies[ledger_id][entry_id, bookie.bookie_id] = copy
    return copies, unasked


async def incomplete(cluster: WanCluster, ledgers: list[LedgerMetadata], least: int) -> list[str]:
    """Closed fragments that miss a copy, or lie in fewer regions than ``least``."""
    regions = regions_of_ids(cluster)
    copies, _ = await ask_all(cluster, ledgers)
    faults = []
    for metadata in ledgers:
        for span in settled_spans(metadata):
            where = f"ledger {metadata.ledger_id} from {span.first}"
            found = {regions[bookie] for bookie in span.fragment.bookies}
            if len(found) < least:
                faults.append(f"{where}: only in {sorted(found)}")
            for entry_id in range(span.first, span.last + 1):
                for index in span.quorum.write_set(entry_id):
                    bookie = span.fragment.bookies[index]
                    if (entry_id, str(bookie)) not in copies[metadata.ledger_id]:
                        faults.append(f"{where}: {bookie} misses {entry_id}")
    return faults


async def query_faults(
    cluster: WanCluster, region: str, read: RecordedRead, until: str
) -> list[str]:
    """Where a Spark query up to ``until`` differs from what a complete reader got."""
    rows = cluster.folder / "rows"
    told = {
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
    command = python("chaos.lab.wan.programs.spark_query", json.dumps(told))
    program = Program("query", region, command, cluster.folder / "query.log")
    program.launch()
    try:
        deadline = time.monotonic() + _QUERY_S_MAX
        while program.is_running and time.monotonic() < deadline:  # noqa: ASYNC110 - a process
            await asyncio.sleep(_LOOK_S)
    finally:
        program.kill()
    if not rows.exists():
        return [f"the query failed:\n{program.end_of_log()}"]
    found = sorted(tuple(json.loads(line)) for line in rows.read_text().splitlines())
    wanted = sorted((str(one.dlsn), one.payload.decode("latin-1")) for one in read.records)
    return [] if found == wanted else [f"{len(found)} rows, and readers got {len(wanted)}"]
