"""Reads the lag of a streaming query from Spark's progress reports."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

RECORDS_BEHIND = "records behind"
"""Key of the lag in ``latestOffset`` of a source's progress. No stream has this name."""


def lag(query: StreamingQuery) -> dict[str, int]:
    """Return the number of records by stream that the query's last micro-batch left unread.

    Streams without such records are not included. Only sources of this package count.
    """
    progress: Any = query.lastProgress
    found: dict[str, int] = {}
    for source in progress["sources"] if progress is not None else ():
        latest = source["latestOffset"]
        if isinstance(latest, str):
            latest = json.loads(latest)
        if isinstance(latest, Mapping):
            for stream, records in latest.get(RECORDS_BEHIND, {}).items():
                found[stream] = found.get(stream, 0) + records
    return found
