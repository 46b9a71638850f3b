"""``--wait`` of the commands, against a development cluster and real processes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.tests.support.processes.process_cluster import (
    RHUMBLINE,
    ProcessCluster,
    refusal,
    succeeded,
)
from rhumbline.tests.support.processes.proxy_processes import ClusterProxy


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as running:
        yield running


def test_dev_cluster_is_waited_for_and_stopped(tmp_path: Path) -> None:
    code, line = refusal("dev", "--wait", "--timeout", "200ms", cwd=tmp_path)
    assert (code, line) == (
        5,
        "rhumbline: after 200.0 ms: no `rhumbline dev` serves rhumbline-dev",
    )
    command = rhumbline_command("dev", "--bookies", "1")
    with ManagedProcess("dev", command, tmp_path / "dev.log", cwd=tmp_path) as process:
        succeeded("dev", "--wait", cwd=tmp_path)
        assert b"bonn-1" in succeeded("node", "ls", "--wait", "3", cwd=tmp_path)
        code, line = refusal("dev", cwd=tmp_path)
        assert code == 1
        assert "is in use by another `rhumbline dev`" in line
        succeeded("dev", "--stop", cwd=tmp_path)
        assert process.wait(120) == 0
    succeeded("dev", "--stop", cwd=tmp_path)


def test_lists_are_printed_once_they_are_long_enough(cluster: ProcessCluster) -> None:
    assert b"b2@" in cluster.run("node", "ls", "--wait", "3")
    where = cluster.options()
    short = ("--timeout", "200ms")
    code, line = refusal("node", "ls", "--wait", "4", *short, *where)
    assert (code, line) == (5, "rhumbline: after 200.0 ms: 3 of 4 bookies are up")
    code, line = refusal("proxy", "ls", "--wait", "1", *short, *where)
    assert (code, line) == (5, "rhumbline: after 200.0 ms: 0 of 1 proxies")
    code, line = refusal("proxy", "ls", "--uri", *where)
    assert (code, line) == (5, "rhumbline: no proxy is up")
    assert cluster.run("repair", "ls").strip() == b"no ledger is queued for repair"
    code, line = refusal("repair", "ls", "--wait", *short, *where)
    assert code == 5
    assert line.startswith("rhumbline: after 200.0 ms: 0 ledgers need repair; no repair process")


def test_archives_are_waited_for(cluster: ProcessCluster) -> None:
    cold = ("--cold", (cluster.root / "cold").as_uri())
    cluster.run("stream", "create", "s")
    cluster.run("stream", "append", "s", stdin=b"one\ntwo\n")
    code, line = refusal("archive", "ls", "--wait", "1", "--timeout", "200ms", *cold)
    assert (code, line) == (5, "rhumbline: after 200.0 ms: 0 of 1 archived segments")
    cluster.run("archive", "run", *cold)
    assert b"default/s" in succeeded("archive", "ls", "--wait", "1", *cold)


def test_records_are_waited_for(cluster: ProcessCluster) -> None:
    cluster.run("stream", "create", "s")
    reading = subprocess.Popen(
        [str(RHUMBLINE), "stream", "read", "s", "--wait", "--limit", "3", *cluster.options()],
        stdout=subprocess.PIPE,
    )
    try:
        cluster.run("stream", "append", "s", stdin=b"one\ntwo\n")
        cluster.run("stream", "append", "s", stdin=b"three\nfour\n")
        printed, _ = reading.communicate(timeout=120)
        assert printed == b"one\ntwo\nthree\n"
    finally:
        reading.kill()
        reading.communicate()
    code, line = refusal(
        "stream", "read", "s", "--wait", "--limit", "9", "--timeout", "1s", *cluster.options()
    )
    assert (code, line) == (5, "rhumbline: after 1.0 s: fewer than 9 records were read from s")


def test_waiting_for_records_needs_a_limit() -> None:
    code, line = refusal("stream", "read", "s", "--wait")
    assert code == 2
    assert "--wait needs --limit" in line


def test_registered_proxies_are_printed_as_one_uri(cluster: ProcessCluster) -> None:
    proxy = ClusterProxy(cluster, "write-proxy", "both", "--with-read")
    proxy.launch()
    try:
        uri = cluster.run("proxy", "ls", "--role", "read", "--wait", "1", "--uri").decode().strip()
        assert uri.startswith("grpc://127.0.0.1:")
        cluster.run("stream", "create", "s")
        succeeded("stream", "append", "s", "--via", uri, stdin=b"one\n")
        assert succeeded("stream", "read", "s", "--via", uri) == b"one\n"
    finally:
        proxy.stop()
