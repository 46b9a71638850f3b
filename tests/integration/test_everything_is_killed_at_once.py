"""Acknowledged records survive a kill -9 of the writer and all bookies during writes."""

import subprocess
import time
from pathlib import Path

from rhumbline.tests.support.processes.process_cluster import RHUMBLINE, ProcessCluster

LINES = 2_000_000
ACKED_MIN = 5_000
WAIT_SECONDS_MAX = 120
SHORT_SESSIONS = {"RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s"}


def acknowledged(file: Path) -> list[str]:
    """Return the positions that the writer printed, in order, without an incomplete last line."""
    return file.read_text().rpartition("\n")[0].split("\n")


def test_acknowledged_records_are_there_in_order_and_once(tmp_path: Path) -> None:
    text = tmp_path / "input"
    text.write_text("".join(f"record {number}\n" for number in range(LINES)))
    acks = tmp_path / "acks"
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=SHORT_SESSIONS) as cluster:
        cluster.run("stream", "create", "s")
        # The input never ends, so that the writer is still appending when it is killed.
        endless = subprocess.Popen(
            ["sh", "-c", f"cat {text}; exec sleep 1000"], stdout=subprocess.PIPE
        )
        with acks.open("wb") as out:
            writer = subprocess.Popen(
                [str(RHUMBLINE), "stream", "append", "s", "-v", *cluster.options()],
                stdin=endless.stdout,
                stdout=out,
                stderr=subprocess.DEVNULL,
            )
        try:
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while len(acknowledged(acks)) < ACKED_MIN:
                assert writer.poll() is None
                assert time.monotonic() < deadline, "nothing was acknowledged"
                time.sleep(0.005)
        finally:
            writer.kill()
            cluster.kill_all()
            endless.kill()
            for process in (writer, endless):
                process.wait(timeout=60)
            assert endless.stdout is not None
            endless.stdout.close()
        acked = acknowledged(acks)
        for bookie in cluster.bookies:
            bookie.start()
        cluster.run("stream", "append", "s", stdin=b"after the crash\n")
        lines = cluster.run("stream", "read", "s", "-v").decode().splitlines()
    rows = [line.split("\t") for line in lines]
    positions = [row[0] for row in rows]
    payloads = [row[2] for row in rows]
    assert ACKED_MIN <= len(acked) <= len(rows) - 1 < LINES
    assert positions[: len(acked)] == acked
    assert payloads == [f"record {number}" for number in range(len(rows) - 1)] + ["after the crash"]
    assert len(set(positions)) == len(positions)
