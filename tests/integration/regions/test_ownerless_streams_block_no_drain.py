"""Drains and decommissions end although the writer of an idle stream is gone, and say what is left.

An operating team waited 31 minutes: the stream was never repaired, and decommissions hung on it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, rhumbline


class Operations:
    """Commands of an operator in a cluster of four bookies, with a repair process."""

    def __init__(self, cluster: ProcessCluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def json(self, *arguments: str) -> Any:  # noqa: ANN401 - any JSON value
        """Run a command and return what it prints as JSON."""
        return json.loads(self._cluster.run(*arguments, "-o", "json"))

    def writer(self, stream: str) -> ManagedProcess:
        """Start a process that writes a record, and keeps the stream open."""
        self._cluster.run("stream", "create", stream, "--quorum", "3/3/2")
        command = rhumbline_command("stream", "append", stream, *self._cluster.options())
        writer = ManagedProcess(stream, command, self._folder / f"{stream}.log", has_input=True)
        writer.start()
        writer.write_line(b"first")
        self._cluster.run("stream", "read", stream, "--limit", "1", "--wait")
        return writer

    def member(self, stream: str) -> str:
        """Return a bookie of the last segment."""
        return str(self.json("segment", "ls", stream)[-1]["bookies"][0])

    def repair(self) -> ManagedProcess:
        """Return a process that repairs, with a short grace time."""
        command = rhumbline_command(
            "repair", "run", "--audit-interval", "500ms",
            "--set", "repair.ownerless_grace_ms=2s", *self._cluster.options(),
        )  # fmt: skip
        return ManagedProcess("repair", command, self._folder / "repair.log", ready="repairing")


def test_a_bookie_of_an_idle_stream_whose_writer_is_gone_is_decommissioned(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a",) * 4) as cluster:
        operations = Operations(cluster, tmp_path)
        operations.writer("idle").kill()
        victim = operations.member("idle")

        cluster.run("node", "drain", victim, "--no-wait")
        [drain] = operations.json("repair", "drains")
        assert (drain["target"], drain["ledgers"], drain["being_written"]) == (victim, 1, 1)
        [waiting] = drain["waiting"]
        assert (waiting["stream"], waiting["is_open"]) == ("default/idle", True)
        assert "no repair process is running" in waiting["reason"]

        with operations.repair():
            done = rhumbline("node", "decommission", victim, "-o", "json", *cluster.options())
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout)["state"] == "decommissioned"
        events = [json.loads(line) for line in done.stderr.decode().splitlines()]
        left = [event["left"] for event in events if event["event"] == "progress"][-1]
        assert (left["target"], left["is_done"], left["copies"]) == (victim, True, 0)
        [segment] = operations.json("segment", "ls", "idle")
        assert segment["state"] == "completed" and victim not in segment["bookies"]
        assert cluster.run("stream", "read", "idle") == b"first\n"


@pytest.mark.long
def test_streams_are_rolled_sealed_and_unsealed_by_command(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a",) * 3) as cluster:
        operations = Operations(cluster, tmp_path)
        live = operations.writer("live")
        operations.writer("gone").kill()
        done = rhumbline("stream", "roll", "live", *cluster.options())
        assert b"its writer continues in segment 2" in done.stderr, done.stderr
        done = rhumbline("stream", "roll", "gone", "--grace", "1s", *cluster.options())
        assert b"segment 1 of gone is completed; the stream has no writer" in done.stderr
        live.write_line(b"second")
        cluster.run("stream", "read", "live", "--limit", "2", "--wait")

        cluster.run("stream", "seal", "live")
        assert operations.json("stream", "describe", "live")["is_sealed"]
        code, message = refusal("stream", "append", "live", *cluster.options(), stdin=b"third\n")
        assert code != 0 and "stream live is sealed" in message, message
        cluster.run("stream", "unseal", "live")
        cluster.run("stream", "append", "live", stdin=b"third\n")
        assert cluster.run("stream", "read", "live") == b"first\nsecond\nthird\n"
        live.kill()
