"""Tests of server processes and commands with their metadata in a store: SQLite, FoundationDB."""

import json
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.process_cluster import ProcessCluster
from rhumbline.tests.support.servers.store_locations import fdb_uri, unique_name

LINES = [b"line %d" % number for number in range(100)]


@pytest.mark.parametrize("kind", ["sqlite", "fdb"])
def test_bookies_doctor_and_commands_use_the_store(kind: str, tmp_path: Path) -> None:
    metadata = fdb_uri(unique_name()) if kind == "fdb" else None
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), metadata=metadata) as cluster:
        cluster.run("stream", "create", "s")
        cluster.run("stream", "append", "s", stdin=b"\n".join(LINES) + b"\n")
        cluster.bookies[2].kill()
        cluster.run("stream", "append", "s", stdin=b"more\n")
        cluster.bookies[2].start()
        found = cluster.run("stream", "read", "s", "--limit", str(len(LINES) + 1), "-o", "jsonl")
        assert len(found.splitlines()) == len(LINES) + 1
        findings = json.loads(cluster.run("doctor", "-o", "json"))
        assert [each for each in findings if each["verdict"] == "fault"] == []
        (store,) = [each for each in findings if each["check"] == "metadata store"]
        assert store["detail"].startswith(cluster.metadata.partition("&")[0])
