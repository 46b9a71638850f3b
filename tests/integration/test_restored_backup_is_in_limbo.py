"""A bookie's directory that is restored from a backup does not deny what it once acknowledged."""

import json
import shutil
from pathlib import Path

import pytest

from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, rhumbline

LINES = [b"line %d" % number for number in range(400)]


def restore(bookie: BookieProcess, backup: Path) -> None:
    """Replace the stopped bookie's directory by its back-up."""
    shutil.rmtree(bookie.directory)
    shutil.copytree(backup, bookie.directory)


def append(cluster: ProcessCluster, first: int, end: int) -> None:
    lines = b"\n".join(LINES[first:end]) + b"\n"
    cluster.run("stream", "append", "s", stdin=lines)


def limbo_findings(cluster: ProcessCluster) -> list[str]:
    done = rhumbline("doctor", "-o", "json", *cluster.options())
    findings = json.loads(done.stdout)
    assert done.returncode == any(finding["verdict"] == "fault" for finding in findings)
    return [finding["detail"] for finding in findings if "in limbo" in finding["detail"]]


@pytest.mark.parametrize(
    "is_same_start",
    [
        pytest.param(False, id="earlier start"),
        pytest.param(True, id="last start", marks=pytest.mark.long),
    ],
)
def test_restored_directory_is_in_limbo_and_the_stream_stays_whole(
    tmp_path: Path, is_same_start: bool
) -> None:
    """Before, a recovery believed its denials, which may cut off acknowledged entries."""
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as cluster:
        cluster.run("stream", "create", "s")
        append(cluster, 0, 100)
        bookie = cluster.bookies[1]
        assert bookie.stop() == 0
        bookie.start()
        assert bookie.stop() == 0
        backup = tmp_path / "backup"
        if not is_same_start:
            shutil.copytree(bookie.directory, backup)
        bookie.start()
        append(cluster, 100, 200)
        if is_same_start:  # a hot back-up: only the current log file still grows
            shutil.copytree(bookie.directory, backup)
        append(cluster, 200, 300)
        assert limbo_findings(cluster) == []
        assert bookie.stop() == 0
        restore(bookie, backup)
        bookie.start()
        words = "the log ends at" if is_same_start else "older copy"
        (detail,) = limbo_findings(cluster)
        assert words in detail
        assert words in bookie.output
        assert bookie.stop() == 0
        bookie.start()
        assert words in bookie.output, "limbo survives restarts, and so does its reason"
        append(cluster, 300, 400)
        assert cluster.run("stream", "read", "s").splitlines() == LINES


@pytest.mark.long
def test_files_that_are_restored_after_a_kill_are_in_limbo(tmp_path: Path) -> None:
    """No end of the log was recorded between the copy and the kill: the files themselves differ."""
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as cluster:
        cluster.run("stream", "create", "s")
        append(cluster, 0, 100)
        bookie = cluster.bookies[1]
        backup = tmp_path / "backup"
        shutil.copytree(bookie.directory, backup)
        append(cluster, 100, 200)
        bookie.kill()
        restore(bookie, backup)
        bookie.start()
        (detail,) = limbo_findings(cluster)
        assert "the directory is a copy" in detail
        now = json.loads(cluster.run("durability", "-o", "json"))["now"]
        assert (now["bookies"]["up"], now["bookies"]["limbo"]) == (2, 1)
        assert now["ledgers"]["closed"]["reduced"] >= 1, "its copies do not count"
        append(cluster, 200, 300)
        assert cluster.run("stream", "read", "s").splitlines() == LINES[:300]


def test_directory_that_is_moved_after_an_orderly_stop_is_current(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as cluster:
        cluster.run("stream", "create", "s")
        append(cluster, 0, 100)
        bookie = cluster.bookies[1]
        assert bookie.stop() == 0
        backup = tmp_path / "backup"
        shutil.copytree(bookie.directory, backup)
        restore(bookie, backup)
        bookie.start()
        assert limbo_findings(cluster) == []
        append(cluster, 100, 200)
        assert cluster.run("stream", "read", "s").splitlines() == LINES[:200]


@pytest.mark.long
def test_restart_after_a_kill_is_no_restored_backup(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c")) as cluster:
        cluster.run("stream", "create", "s")
        for number in range(3):
            append(cluster, number * 100, number * 100 + 100)
            for bookie in cluster.bookies:
                bookie.kill()
            for bookie in cluster.bookies:
                bookie.start()
        assert limbo_findings(cluster) == []
        assert cluster.run("stream", "read", "s").splitlines() == LINES[:300]


def test_bookie_refuses_a_metadata_store_that_was_restored_from_an_older_copy(
    tmp_path: Path,
) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a",)) as cluster:
        (bookie,) = cluster.bookies
        assert bookie.stop() == 0
        database = cluster.root / "metadata.db"
        copies = {path: path.read_bytes() for path in cluster.root.glob("metadata.db*")}
        assert database in copies
        for _ in range(2):
            bookie.start()
            assert bookie.stop() == 0
        for path in cluster.root.glob("metadata.db*"):
            path.unlink()
        for path, data in copies.items():
            path.write_bytes(data)
        code, line = refusal("bookie", "run", str(bookie.directory), "-u", cluster.metadata)
        assert code != 0
        assert "started 3 times, but the metadata store knows start 1" in line
