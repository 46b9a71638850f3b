"""A bookie with flipped bits in its files detects and repairs them from the other replicas."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.tests.support.fakes import real_text
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, succeeded

QUICK = {
    "RHUMBLINE_BOOKIE__LOG_FILE_BYTES": str(1 << 20),
    "RHUMBLINE_BOOKIE__SEALED_LOGS_KEPT": "2",
    "RHUMBLINE_BOOKIE__MAINTENANCE_MS": "200ms",
    "RHUMBLINE_BOOKIE__SCRUB_MS": "500ms",
}
FLIPS = 5
DEADLINE_SECONDS = 120


def flip_bits(directory: Path) -> list[Path]:
    """Flip bits in several places of a log file and a sorted file, both sealed."""
    flipped = []
    for kind in ("log", "sorted"):
        path = min((directory / kind).iterdir())
        size = path.stat().st_size
        with path.open("r+b") as file:
            for number in range(1, FLIPS + 1):
                at = size * number // (FLIPS + 1)
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 0x20]))
        flipped.append(path)
    return flipped


def wait_until(is_done: Callable[[], bool], condition: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"not in time: {condition}"
        time.sleep(0.1)


def summary(bookie: BookieProcess) -> dict[str, Any]:
    text = succeeded("bookie", "verify", str(bookie.directory), "-o", "json")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@pytest.mark.long
def test_flipped_bits_are_repaired_from_the_other_replicas(tmp_path: Path) -> None:
    text = b"".join(real_text.lines(32_000_000))
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=QUICK) as cluster:
        cluster.run("stream", "create", "text")
        cluster.run("stream", "append", "text", stdin=text)
        victim = cluster.bookies[1]
        wait_until(lambda: any((victim.directory / "sorted").iterdir()), "a sorted file exists")
        assert victim.stop() == 0
        before = summary(victim)
        damaged = flip_bits(victim.directory)
        victim.start()
        wait_until(lambda: not any(path.exists() for path in damaged), "damaged files removed")
        assert victim.stop() == 0
        after = summary(victim)
        assert (after["entries"], after["size_bytes"]) == (before["entries"], before["size_bytes"])
        victim.start()
        assert cluster.run("stream", "read", "text") == text
