"""A metadata store that is deleted is rebuilt from bookies, or restored from an older backup."""

import hashlib
import json
import sys
import threading
import time
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess
from rhumbline.tests.support.processes.process_cluster import (
    ProcessCluster,
    refusal,
    rhumbline,
    succeeded,
)

LINES = [b"line %d" % number for number in range(600)]


def append(cluster: ProcessCluster, first: int, end: int, stream: str = "s") -> None:
    cluster.run("stream", "append", stream, stdin=b"\n".join(LINES[first:end]) + b"\n")


def read(cluster: ProcessCluster, stream: str = "s") -> list[bytes]:
    return cluster.run("stream", "read", stream).splitlines()


def digest(lines: list[bytes]) -> str:
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def lose_metadata(cluster: ProcessCluster) -> None:
    """Kill every process and delete the store."""
    cluster.kill_all()
    for file in cluster.root.glob("metadata.db*"):
        file.unlink()


def inventories(cluster: ProcessCluster, *, without: int | None = None) -> list[str]:
    """Take the inventory of each bookie, and return them as options."""
    options = []
    for number, bookie in enumerate(cluster.bookies):
        if number != without:
            place = cluster.root / f"inventory-{number}"
            succeeded("bookie", "inventory", str(bookie.directory), "--to", str(place))
            assert place.stat().st_mode & 0o077 == 0, "it contains passwords"
            options += ["--inventory", str(place)]
    return options


def filled(command: str, *arguments: str) -> dict[str, object]:
    """Restore or rebuild, and return what the command printed."""
    document = json.loads(succeeded("metadata", command, *arguments, "-o", "json"))
    assert isinstance(document, dict)
    return document


def restart(cluster: ProcessCluster) -> None:
    for bookie in cluster.bookies:
        bookie.start()


def test_all_records_are_readable_after_a_rebuild_from_bookies(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as cluster:
        for stream in ("s", "t"):
            cluster.run("stream", "create", stream)
        for first in (0, 150):
            append(cluster, first, first + 150)
        append(cluster, 0, 50, "t")
        before = digest(read(cluster))
        lose_metadata(cluster)
        found = inventories(cluster)
        code, text = refusal("metadata", "rebuild", cluster.metadata, *found[:4])
        assert "there is no inventory of b2@" in text, (code, text)
        shown = filled("rebuild", cluster.metadata, *found)
        assert (shown["streams"], shown["records"], shown["findings"]) == (2, 350, [])
        assert shown["unknown_ledgers"] == []
        code, text = refusal("metadata", "rebuild", cluster.metadata, *found)
        assert "is not empty" in text, (code, text)
        restart(cluster)
        assert digest(read(cluster)) == before == digest(LINES[:300])
        assert read(cluster, "t") == LINES[:50]
        append(cluster, 300, 400)
        assert read(cluster) == LINES[:400]
        _, text = refusal("metadata", "release", "-u", cluster.metadata)
        assert "--yes" in text
        released = json.loads(cluster.run("metadata", "release", "--yes", "-o", "json"))
        assert (released["was_held"], released["reason"]) == (True, "rebuild")


@pytest.mark.long
def test_an_older_backup_loses_no_record_that_was_acknowledged_later(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as cluster:
        cluster.run("stream", "create", "s")
        cluster.run("namespace", "create", "extra")
        append(cluster, 0, 100)
        backup, cold = str(cluster.root / "backup"), f"file://{cluster.root}/cold"
        cluster.run("metadata", "backup", "--to", backup)
        assert Path(backup).stat().st_mode & 0o077 == 0, "it contains passwords"
        kept = json.loads(cluster.run("metadata", "backup", "--to", cold, "-o", "json"))
        assert kept["place"].startswith("metadata-backups/")
        append(cluster, 100, 300)
        cluster.run("stream", "create", "later")
        append(cluster, 0, 70, "later")
        lose_metadata(cluster)
        code, text = refusal("metadata", "restore", backup, cluster.metadata)
        assert "--inventory" in text, (code, text)
        shown = filled("restore", backup, cluster.metadata, "--as-is")
        assert shown["streams"] is None
        shown = filled("restore", cold, cluster.metadata, *inventories(cluster), "--replace")
        assert (shown["streams"], shown["records"], shown["findings"]) == (2, 370, [])
        restart(cluster)
        assert read(cluster) == LINES[:300]
        assert read(cluster, "later") == LINES[:70]
        assert b"extra" in cluster.run("namespace", "ls")
        append(cluster, 300, 400)
        assert read(cluster) == LINES[:400]


@pytest.mark.long
def test_each_store_of_a_cluster_is_rebuilt_with_the_other_one(tmp_path: Path) -> None:
    """A namespace is in the store of its region, another one was moved to it, and one is global.

    The backup is older than the move.
    """
    regional = f"sqlite://{tmp_path}/cluster/a.db"
    environ = {"RHUMBLINE_CLUSTER__REGIONAL_METADATA__A": regional}
    cluster = ProcessCluster(tmp_path / "cluster", ("a", "a", "b"), environ=environ)
    cluster.root.mkdir()
    cluster.run("cluster", "init")
    cluster.run("cluster", "join-store", "a")
    namespaces = ("default", "near", "moved")

    def advance(first: int) -> None:
        """Append more records and read all of them."""
        records = b"\n".join(LINES[first : first + 50]) + b"\n"
        for name in namespaces:
            cluster.run("stream", "append", "s", "-n", name, stdin=records)
            found = cluster.run("stream", "read", "s", "-n", name).splitlines()
            assert found == LINES[: first + 50], name

    with cluster:
        quorum = ("--quorum", "2/2/2/1")
        cluster.run("namespace", "create", "near", "--store", "a", *quorum)
        cluster.run("namespace", "create", "moved", "--regions", "a", *quorum)
        for name in namespaces:
            cluster.run("stream", "create", "s", "-n", name)
        advance(0)
        backup = str(cluster.root / "backup")
        cluster.run("metadata", "backup", "--to", backup)
        cluster.run("namespace", "move", "moved", "--to", "a")
        advance(50)

        cluster.kill_all()
        for file in cluster.root.glob("a.db*"):
            file.unlink()
        shown = filled(
            "rebuild", regional, "--store", "a", "--other-store", cluster.metadata,
            *inventories(cluster)[:4],
        )  # fmt: skip
        assert (shown["streams"], shown["records"], shown["findings"]) == (2, 200, [])
        restart(cluster)
        advance(100)

        lose_metadata(cluster)
        others = ("--other-store", regional)
        shown = filled("rebuild", cluster.metadata, *others, *inventories(cluster))
        assert (shown["streams"], shown["records"], shown["findings"]) == (1, 150, [])
        restart(cluster)
        advance(150)
        assert cluster.run("namespace", "ls").count(b"near") == 1

        lose_metadata(cluster)
        held = inventories(cluster)
        shown = filled("restore", backup, cluster.metadata, *others, *held)
        assert (shown["streams"], shown["records"], shown["findings"]) == (1, 200, [])
        restart(cluster)
        advance(200)
        assert cluster.run("namespace", "ls").count(b"moved") == 1


@pytest.mark.long
def test_a_writer_that_was_cut_short_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """The bookies are killed while records arrive, and one disk is lost."""
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c", "d")) as cluster:
        cluster.run("stream", "create", "s")
        append(cluster, 0, 100)
        lines = b"".join(line + b"\n" for line in LINES[100:]) * 50
        appending = threading.Thread(
            target=rhumbline,
            args=("stream", "append", "s", *cluster.options()),
            kwargs={"stdin": lines},
        )
        appending.start()
        while len(read(cluster)) < 200:
            pass
        seen = read(cluster)
        lose_metadata(cluster)
        appending.join()
        held = inventories(cluster, without=3)
        code, text = refusal("metadata", "rebuild", cluster.metadata, *held)
        names = text.partition("no inventory of ")[2].partition(":")[0]
        lost = ["--lost", names] if code and names else []
        shown = filled("rebuild", cluster.metadata, *held, *lost)
        assert shown["findings"] == []
        for bookie in cluster.bookies[:3]:
            bookie.start()
        assert read(cluster)[: len(seen)] == seen


LONELY_WRITER = """
import asyncio, os, sys
from pathlib import Path
from rhumbline import connect

async def main(uri, signal):
    async with connect(uri, region="a") as client, client.writer("s") as writer:
        await writer.append(b"line 0")
        print("began", flush=True)
        while not Path(signal).exists():
            await asyncio.sleep(0.05)
        tickets = [writer.append(b"line %d" % number) for number in range(1, 600)]
        for ticket in tickets:
            await ticket
        print("ended", flush=True)
        os._exit(0)  # before it publishes the LAC

asyncio.run(main(*sys.argv[1:]))
"""


class LonelyWriter(ManagedProcess):
    """A process that appends a record, and on a signal all others, which it then awaits."""

    def __init__(self, cluster: ProcessCluster, directory: Path) -> None:
        script, self.signal = directory / "writer.py", directory / "signal"
        script.write_text(LONELY_WRITER)
        command = [sys.executable, str(script), cluster.metadata, str(self.signal)]
        super().__init__("writer", command, directory / "writer.out", ready_s_max=30)

    def is_ready(self) -> bool:
        return b"began" in self.log.read_bytes()

    def wait_end(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while b"ended" not in self.log.read_bytes():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)


@pytest.mark.long
def test_records_acknowledged_under_a_lowered_r_survive_the_loss_of_the_store(
    tmp_path: Path,
) -> None:
    """One region is left, R is lowered for it, and seconds later the metadata store is lost."""
    with ProcessCluster(tmp_path / "cluster", ("a", "a", "b", "b")) as cluster:
        cluster.run("stream", "create", "s", "--quorum", "4/4/2/2")
        writer = LonelyWriter(cluster, tmp_path)
        with writer:
            for bookie in cluster.bookies[2:]:
                bookie.kill()
            writer.signal.touch()
            time.sleep(1)
            cluster.run("stream", "set-policy", "s", "--quorum", "4/4/2/1")
            writer.wait_end(30)
        lose_metadata(cluster)
        shown = filled("rebuild", cluster.metadata, *inventories(cluster))
        assert (shown["records"], shown["findings"]) == (600, [])
        restart(cluster)
        assert read(cluster) == LINES
