"""The durability command and the metrics tell the truth when two of three bookies are killed."""

import json
import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.chaos.server_processes import status_url
from rhumbline.tests.support.processes.process_cluster import RHUMBLINE, ProcessCluster, refusal

SHORT_SESSIONS = {"RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s"}
WAIT_S_MAX = 60


def wait_for(condition: Callable[[], bool], what: str) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < WAIT_S_MAX, what
        time.sleep(0.2)
    return time.monotonic() - began


def metrics(repair: ManagedProcess) -> dict[str, float]:
    with urllib.request.urlopen(f"{status_url(repair)}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    rows = [line.rpartition(" ") for line in lines if line.startswith("rhumbline_repair_")]
    return {name: float(value) for name, _, value in rows}


def test_a_stream_that_is_left_on_one_disk_is_at_risk(tmp_path: Path) -> None:
    regions = ("bonn", "oslo", "rome")
    with ProcessCluster(tmp_path / "cluster", regions, environ=SHORT_SESSIONS) as cluster:

        def durability() -> dict[str, Any]:
            text = cluster.run("durability", "--lose", "rome", "-o", "json")
            found: dict[str, Any] = json.loads(text)
            return found

        cluster.run("stream", "create", "orders", "--quorum", "3/3/2/2")
        cluster.run("stream", "append", "orders", stdin=b"closed\n" * 9)
        writer = ManagedProcess(
            "writer",
            [str(RHUMBLINE), "stream", "append", "orders", "-v", *cluster.options()],
            tmp_path / "writer.log",
            has_input=True,
        )
        repair = ManagedProcess(
            "repair",
            [str(RHUMBLINE), "repair", "run", "--audit-interval", "1s", *cluster.options()],
            tmp_path / "repair.log",
            ready="repairing the cluster",
        )
        with writer, repair:
            writer.write_line(b"open")
            wait_for(lambda: durability()["now"]["ledgers"]["open"]["whole"] >= 1, "open ledger")
            known = "rhumbline_repair_durability_known"
            wait_for(lambda: metrics(repair).get(known) == 1, "the first report of the auditor")

            for bookie in cluster.bookies[:2]:
                bookie.kill()
            wait_for(lambda: durability()["now"]["bookies"]["down"] == 2, "registrations")
            found = durability()
            code, line = refusal("durability", "--lose", "rome", "--strict", *cluster.options())
            assert code == 3
            assert re.search(r"ledgers \(\d open\) at risk now: \d doubtful, b0@\w+ is down", line)
            assert found["now"]["ledgers"]["closed"]["doubtful"] >= 1
            assert found["now"]["ledgers"]["open"]["doubtful"] >= 1
            assert found["now"]["one_failure_from_loss"]["bookie"]["open"] >= 1
            assert found["now"]["writes_blocked"] >= 1
            assert found["now"]["streams_at_risk"] == ["default/orders"]
            assert found["what_if"][0]["ledgers"]["closed"]["unavailable"] >= 1
            name = 'rhumbline_repair_durability_ledgers{state="open",verdict="doubtful"}'
            seen_s = wait_for(lambda: metrics(repair).get(name, 0) >= 1, "the metric")
            print(f"the metric followed {seen_s:.1f} s after the command")
            assert metrics(repair)["rhumbline_repair_durability_writes_blocked"] >= 1

            for bookie in cluster.bookies[:2]:
                bookie.start()
            wait_for(lambda: metrics(repair).get(name) == 0, "the metric when they are back")
            cluster.run("durability", "--strict")
