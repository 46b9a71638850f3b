"""Commands for old data, with real processes: purge, doctor, untruncate, restore under a name."""

import json
import time
from pathlib import Path

import pytest

from rhumbline.chaos.managed_process import ManagedProcess, rhumbline_command
from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, rhumbline

DEADLINE_S = 60


class OldData:
    """Commands in a cluster with a cold store."""

    def __init__(self, cluster: ProcessCluster, folder: Path) -> None:
        self._cluster = cluster
        self._environ = {"RHUMBLINE_CLUSTER__COLD": f"file://{folder / 'cold'}"}

    def run(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command that must succeed, and return its output."""
        arguments = (*arguments, *self._cluster.options())
        done = rhumbline(*arguments, stdin=stdin, environ=self._environ)
        assert done.returncode == 0, f"{arguments}: {done.stderr.decode()}"
        return done.stdout.decode()

    def retention_finding(self, *, has_cold_store: bool = True) -> tuple[str, str]:
        """Return verdict and detail of the doctor's finding about old data."""
        arguments = ("doctor", "-o", "json")
        shown = self.run(*arguments) if has_cold_store else self._cluster.run(*arguments)
        rows = json.loads(shown)
        (row,) = [row for row in rows if row["check"] == "retention"]
        return row["verdict"], row["detail"]

    def segment_count(self, stream: str) -> int:
        """Return the number of segments that the metadata of a stream has."""
        known = json.loads(self.run("stream", "describe", stream, "-o", "json"))
        count = known["segments"]
        assert isinstance(count, int)
        return count


@pytest.mark.long
def test_purged_records_come_back_from_the_archive_with_their_policy(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path / "cluster", ("a",)) as cluster:
        data = OldData(cluster, tmp_path)
        data.run("stream", "create", "s", "--quorum", "1/1/1", "--purge-grace", "1s")
        for n in range(4):
            data.run("stream", "append", "s", stdin=b"%d\n" % n)
        assert data.retention_finding() == (
            "ok",
            "0 streams want old data deleted; none is overdue",
        )
        data.run("stream", "truncate", "s", "3:0:0")
        assert data.run("stream", "read", "s").split() == ["2", "3"]
        described = json.loads(data.run("stream", "describe", "s", "-o", "json"))
        assert (described["truncated_segments"], described["purge_begins_at"][-1]) == (2, "Z")
        data.run("stream", "untruncate", "s", "2:0:0")
        assert data.run("stream", "read", "s").split() == ["1", "2", "3"]

        data.run("archive", "run")
        data.run("stream", "set-policy", "s", "--retention", "1ms", "--archive-retention", "1d")
        verdict, detail = data.retention_finding()
        assert verdict == "warning"
        assert "start `rhumbline repair run`" in detail
        command = rhumbline_command(
            "repair", "run", "--retention-interval", "200ms", *cluster.options()
        )
        with ManagedProcess("repair", command, tmp_path / "repair.log", ready="repairing"):
            give_up_at = time.monotonic() + DEADLINE_S
            while data.segment_count("s") > 1 and time.monotonic() < give_up_at:
                time.sleep(0.5)
            assert data.segment_count("s") == 1, "only the newest segment keeps its metadata"
            assert data.retention_finding()[0] == "ok"
            verdict, detail = data.retention_finding(has_cold_store=False)
            assert (verdict, "cluster.cold is not set" in detail) == ("warning", True), detail
        code, message = refusal("stream", "untruncate", "s", "2:0:0", *cluster.options())
        assert (code, "was purged" in message) == (4, True), message

        data.run("archive", "restore", "s", "--as", "back", "--segments", "2-3")
        assert data.run("stream", "read", "back").split() == ["1", "2"]
        restored = json.loads(data.run("stream", "describe", "back", "-o", "json"))
        assert (restored["start"][:6], restored["follows_namespace"]) == ("2:0:0@", False)
        policy = restored["policy"]
        assert (policy["quorum"]["ensemble_size"], policy["purge_grace_ms"]) == (1, 1000)
        data.run("stream", "append", "back", stdin=b"more\n")
        assert data.run("stream", "read", "back").split() == ["1", "2", "more"]
        data.run("archive", "verify")
        data.run("stream", "delete", "s", "--yes")
        data.run("archive", "restore", "s", "--as", "all", "--retention", "30d")
        assert data.run("stream", "read", "all").split() == ["0", "1", "2", "3"]
        described = json.loads(data.run("stream", "describe", "all", "-o", "json"))
        assert described["policy"]["retention_ms"] == 30 * 24 * 3_600_000
