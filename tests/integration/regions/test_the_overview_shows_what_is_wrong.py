"""A lost region stays visible in every overview, and the records of an open segment are counted."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.cli.main import main
from rhumbline.tests.support.processes.process_cluster import ProcessCluster

QUICK = {"RHUMBLINE_BOOKIE__SESSION_TTL_MS": "2s"}
DEADLINE_S = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    root = tmp_path_factory.mktemp("overview") / "cluster"
    with ProcessCluster(root, ("a", "b", "c"), environ=QUICK) as running:
        running.run("stream", "create", "s")
        yield running


def rows(cluster: ProcessCluster, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    result = CliRunner().invoke(main, [*arguments, "--output", "json", *cluster.options()])
    return json.loads(result.stdout)


def doctor(cluster: ProcessCluster) -> tuple[int, dict[str, dict[str, str]]]:
    result = CliRunner().invoke(main, ["doctor", "--output", "json", *cluster.options()])
    return result.exit_code, {row["check"]: row for row in json.loads(result.stdout)}


def test_the_records_of_an_open_segment_are_counted(cluster: ProcessCluster) -> None:
    command = rhumbline_command("stream", "append", "s", *cluster.options())
    writer = ManagedProcess("writer", command, cluster.root / "writer.log", has_input=True)
    with writer:
        for number in range(5):
            writer.write_line(b"%d" % number)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            known = rows(cluster, "stream", "describe", "s")
            if known["records"] == 5 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert (known["records"], known["start"][:6]) == (5, "1:0:0@")
        (opened,) = known["open_segments"]
        assert (opened["segment"], opened["records"]) == (1, 5)
        assert (known["owner"], known["home_region"]) == (None, None)


def test_a_lost_region_stays_a_fault(cluster: ProcessCluster) -> None:
    code, before = doctor(cluster)
    assert (code, before["region c"]["verdict"]) == (0, "ok")
    assert "no new segments after the loss of region" in before["namespace default"]["detail"]
    cluster.bookies[2].kill()
    deadline = time.monotonic() + DEADLINE_S
    while rows(cluster, "region", "ls")[2]["state"] == "open":
        code, found = doctor(cluster)
        assert code == 1, "also while the registration of the killed bookie lasts"
        assert time.monotonic() < deadline
    lost = rows(cluster, "region", "ls")[2]
    assert (lost["region"], lost["state"], lost["down"]) == ("c", "down", 1)
    assert [row["mode"] for row in rows(cluster, "node", "ls")] == ["writable", "writable", "down"]
    code, found = doctor(cluster)
    assert code == 1
    assert (found["region c"]["verdict"], found["region c"]["detail"]) == (
        "fault",
        "down; bookies: 1 down",
    )
    assert "no repair process runs" in found["repair"]["detail"]
    assert found["repair"]["verdict"] == "fault", "nothing replaces the copies"
    cluster.run("region", "offline", "c")
    _, found = doctor(cluster)
    assert found["region c"]["verdict"] == "warning", "now the operator knows"
    cluster.run("region", "undrain", "c")
    cluster.bookies[2].start()
    while rows(cluster, "region", "ls")[2]["state"] != "open":
        assert time.monotonic() < deadline
    free = rows(cluster, "node", "ls")[2]
    assert free["is_free_space_current"] is True
