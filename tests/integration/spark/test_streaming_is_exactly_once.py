"""A query whose driver is killed repeatedly outputs exactly the records that were written.

Meanwhile the stream is written, rolled, archived, and truncated up to the last finished batch.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster

DRIVER = Path(__file__).with_name("exactly_once_driver.py")
START_S = 300
"""Generous time limit, in seconds, for starting a driver on a busy machine."""
KILLS = int(os.environ.get("RHUMBLINE_SPARK_KILLS", "1"))


class Query:
    """A streaming query: its files and its drivers."""

    def __init__(self, cluster: BackgroundCluster, root: Path) -> None:
        self._cluster = cluster
        self.checkpoint = root / "checkpoint"
        self.output = root / "output"
        self._log = root / "driver.log"

    def driver(self, mode: str, ready: Callable[[], bool]) -> ManagedProcess:
        """Return a driver that is not started; its end is that of its JVM and Python workers."""
        command = [
            sys.executable, str(DRIVER), self._cluster.metadata_uri, self._cluster.cold_uri,
            str(self.checkpoint), str(self.output), mode,
        ]  # fmt: skip
        environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        return ManagedProcess(
            "driver", command, self._log, ready=ready, ready_s_max=START_S, environ=environ
        )

    def newest(self) -> int:
        """Return the number of the last finished batch; -1 before the first."""
        return max(self._numbers("commits"), default=-1)

    def finished_to(self) -> Dlsn | None:
        """Return the end of the last finished batch; None before the first."""
        done = self._numbers("commits")
        if not done:
            return None
        lines = (self.checkpoint / "offsets" / str(done[-1])).read_text().splitlines()
        return Dlsn.parse(json.loads(lines[2])[STREAM])

    def _numbers(self, folder: str) -> list[int]:
        path = self.checkpoint / folder
        return sorted(int(one.name) for one in path.glob("[0-9]*")) if path.is_dir() else []

    def rows(self) -> list[tuple[Dlsn, bytes]]:
        """Return all rows that the query has written, in order of position."""
        found: list[tuple[Dlsn, bytes]] = []
        for path in self.output.glob("batch-*/*.parquet"):
            table = pq.read_table(path)
            dlsns, payloads = (table.column(n).to_pylist() for n in ("dlsn", "payload"))
            found.extend(zip(map(Dlsn.parse, dlsns), payloads, strict=True))
        return sorted(found)


@pytest.mark.timeout(400 + 350 * KILLS)
def test_killed_drivers_neither_lose_nor_repeat_records(tmp_path: Path) -> None:
    random = Random(11)
    with BackgroundCluster(tmp_path) as cluster:
        query = Query(cluster, tmp_path)
        cluster.start_writing(pause_s=0.2)
        cluster.start_archiving()
        for _ in range(KILLS):
            before = query.newest()
            driver = query.driver("forever", lambda: query.newest() > before)  # noqa: B023
            driver.start()
            time.sleep(random.uniform(0, 2))
            driver.kill()
            finished = query.finished_to()
            assert finished is not None
            cluster.truncate(finished)
        written = cluster.stop_writing()
        driver = query.driver("drain", lambda: True)
        with driver:
            assert driver.wait(START_S) == 0, driver.end_of_log()
        rows = query.rows()
        assert [payload for _, payload in rows] == written
        assert len({dlsn for dlsn, _ in rows}) == len(rows)
        assert sum(done.retired for done in cluster.passes) > 1, "too few segments were retired"
        assert sum(done.purged for done in cluster.passes) > 0, "no segment was purged"
