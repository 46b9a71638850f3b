"""A data disk of a bookie disappears under load: nothing acknowledged is lost."""

import itertools
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.tests.support.fakes import real_text
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, rhumbline
from rhumbline.tests.support.processes.small_disk import small_disk, unmount

MIB = 1 << 20
QUICK = {
    "RHUMBLINE_BOOKIE__LOG_FILE_BYTES": str(MIB),
    "RHUMBLINE_BOOKIE__SEALED_LOGS_KEPT": "1",
    "RHUMBLINE_BOOKIE__MAINTENANCE_MS": "200ms",
    "RHUMBLINE_BOOKIE__DATA_DIR_CHECK_MS": "200ms",
}
DATA_DIRS, LOST_DATA_DIRS = "RHUMBLINE_BOOKIE__DATA_DIRS", "RHUMBLINE_BOOKIE__LOST_DATA_DIRS"
DEADLINE_SECONDS = 120


def wait_until(is_done: Callable[[], bool], condition: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"not in time: {condition}"
        time.sleep(0.1)


class Load:
    """Appends pieces of text in turn until told to stop; each must be acknowledged."""

    def __init__(self, cluster: ProcessCluster, pieces: list[bytes]) -> None:
        self._cluster = cluster
        self._pieces = pieces
        self._acked: list[bytes] = []
        self._error: BaseException | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def acked(self) -> list[bytes]:
        """Return the acknowledged pieces so far. Raises what stopped the load."""
        if self._error is not None:
            raise self._error
        return self._acked

    def finish(self) -> bytes:
        """Stop after the piece in flight, and return all the text."""
        self._is_ending.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive()
        return b"".join(self.acked())

    def _run(self) -> None:
        try:
            for piece in itertools.cycle(self._pieces):
                if self._is_ending.is_set():
                    return
                self._cluster.run("stream", "append", "text", stdin=piece)
                self._acked.append(piece)
        except BaseException as error:
            self._error = error


@pytest.mark.long
def test_a_data_disk_that_disappears_under_load_loses_nothing(tmp_path: Path) -> None:
    lines = list(real_text.lines(12_000_000))
    pieces = [b"".join(lines[at::8]) for at in range(8)]
    with (
        small_disk(tmp_path / "d1", 256 * MIB) as disk,
        small_disk(tmp_path / "d2", 128 * MIB) as other,
    ):
        cluster = ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=QUICK)
        victim = cluster.bookies[1] = a_bookie(cluster, {DATA_DIRS: f"{disk},{other}"})
        with cluster:
            cluster.run("stream", "create", "text")
            load = Load(cluster, pieces)
            wait_until(lambda: len(list((disk / "sorted").iterdir())) >= 3, "sorted files")
            unmount(disk)
            before = len(load.acked())
            log = victim.log.read_text
            wait_until(lambda: "data directory failed" in log(), "the failure is noticed")
            wait_until(lambda: len(load.acked()) > before + 2, "appends without the disk")
            text = load.finish()
            wait_until(lambda: " missing=0 " in log(), "the entries are restored")
            wait_until(lambda: is_free_of_lost_files(cluster), "no lost file is in use")
            assert victim.is_running
            assert cluster.run("stream", "read", "text") == text

            # The mount point without its disk is noticed, and the disk is given up explicitly.
            assert victim.stop() == 0
            refused = rhumbline(
                "bookie", "run", str(victim.directory), "-u", cluster.metadata, "--port", "0",
                environ={**QUICK, DATA_DIRS: f"{disk},{other}"},
            )  # fmt: skip
            assert refused.returncode != 0
            assert re.search(rb"d1 is not the data directory .* mount its disk", refused.stderr)
            settings = {DATA_DIRS: str(other), LOST_DATA_DIRS: str(disk)}
            victim = cluster.bookies[1] = a_bookie(cluster, settings)
            victim.start()
            assert "is in limbo" not in victim.log.read_text()
            cluster.run("durability", "--strict")
            assert cluster.run("stream", "read", "text") == text
            print("acknowledged", len(text), "bytes in", len(load.acked()), "appends")
            print(
                [line for line in log().splitlines() if "data director" in line or "lost" in line]
            )


@pytest.mark.long
def test_copies_on_a_lost_disk_count_again_only_when_they_are_restored(tmp_path: Path) -> None:
    text = b"".join(real_text.lines(4_000_000))
    with small_disk(tmp_path / "d1", 256 * MIB) as disk:
        cluster = ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=QUICK)
        victim = cluster.bookies[1] = a_bookie(cluster, {DATA_DIRS: str(disk)})
        others = cluster.bookies[0], cluster.bookies[2]
        with cluster:
            cluster.run("stream", "create", "text")
            load = Load(cluster, [text])
            wait_until(lambda: len(list((disk / "sorted").iterdir())) >= 2, "sorted files")
            text = load.finish()
            cluster.run("durability", "--strict")
            for other in others:
                other.kill()
            unmount(disk)
            wait_until(lambda: "data directory failed" in victim.log.read_text(), "the failure")
            wait_until(lambda: bookies_by_state(cluster)["incomplete"] == 1, "the bookie tells it")
            wait_until(lambda: bookies_by_state(cluster)["down"] == 2, "the others are down")
            code, line = refusal("durability", "--strict", *cluster.options())
            assert code == 3
            assert re.search(r"[1-9]\d* unavailable", line), line
            assert f"{victim.directory.name}@" in line
            assert " is incomplete" in line, line
            print("without the disk:", line)
            for other in others:
                other.start()
            wait_until(lambda: is_safe(cluster), "all copies count again")
            assert bookies_by_state(cluster)["incomplete"] == 0
            assert cluster.run("stream", "read", "text") == text
            print("restored:", cluster.run("durability", "--strict").decode().splitlines()[0])


def bookies_by_state(cluster: ProcessCluster) -> dict[str, int]:
    """Return the bookies by the state of their copies, according to ``durability``."""
    found: dict[str, int] = json.loads(cluster.run("durability", "-o", "json"))["now"]["bookies"]
    return found


def is_safe(cluster: ProcessCluster) -> bool:
    """Return whether every copy of every ledger is live, according to ``durability``."""
    now = json.loads(cluster.run("durability", "-o", "json"))["now"]
    counts = [*now["ledgers"]["open"].items(), *now["ledgers"]["closed"].items()]
    return all(verdict == "whole" or not count for verdict, count in counts)


def a_bookie(cluster: ProcessCluster, settings: dict[str, str]) -> BookieProcess:
    """Return the second bookie with these settings; it is not started."""
    return BookieProcess(cluster.root / "b1", cluster.metadata, environ=QUICK | settings)


def is_free_of_lost_files(cluster: ProcessCluster) -> bool:
    """Return whether the restored files have left the manifest, according to ``doctor``."""
    done = rhumbline("doctor", *cluster.options())
    return b"0 lost files not restored yet" in done.stdout
