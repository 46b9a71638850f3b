"""Mistakes of a user get one line that says what to do, and an exit code."""

import json
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.process_cluster import ProcessCluster, refusal, succeeded

RECORD_BYTES_MAX = 1 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    root = tmp_path_factory.mktemp("mistakes") / "cluster"
    with ProcessCluster(root, ("a", "b", "c")) as running:
        running.run("stream", "create", "known")
        running.run("stream", "append", "known", "--txid", "7", stdin=b"one\ntwo\n")
        yield running
        assert running.run("stream", "read", "known") == b"one\ntwo\n", "a mistake changed it"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        ("stream append unknown", 4, "no stream unknown in namespace default"),
        ("stream read unknown", 4, "no stream unknown in namespace default"),
        ("stream create known", 1, "stream known already exists"),
        ("stream create a/b", 2, "bad stream name 'a/b': letters, digits, _ . -"),
        ("stream create ..", 2, "bad stream name '..'"),
        ("stream create späß", 2, "bad stream name"),
        ("stream ls -n nowhere", 4, "no namespace nowhere; create it first"),
        ("namespace create default", 1, "namespace default already exists"),
        ("namespace delete default", 2, "has streams; delete them first"),
        ("stream read known --from here", 2, "not a DLSN: 'here'"),
        ("stream read known --from 9:0:0", 4, "9:0:0 is beyond the end of stream known"),
        ("stream read known --from txid:9", 4, "txid 9 is above that of every record of stream"),
        ("stream truncate known 9:0:0", 2, "has no segment 9; its last is"),
        ("stream delete known", 2, "give --yes"),
        ("stream set-policy known", 2, "either --inherit or at least one policy option"),
        ("stream create x --quorum 3/3/1", 3, "--unsafe-ack-1"),
        ("stream create x --quorum 2/3/2", 2, "WQ=3 is above E=2"),
        ("stream create x --flush often", 2, "is not a duration; write it like 10ms"),
        ("node stat nobody", 2, "unknown bookie nobody; the bookies are: b0@"),
        ("stream frobnicate", 2, "No such command 'frobnicate'"),
        ("stream read", 2, "Missing argument 'NAME'"),
    ],
)
def test_refused_command_is_explained(
    cluster: ProcessCluster, arguments: str, code: int, expected: str
) -> None:
    found, line = refusal(*arguments.split(" "), *cluster.options())
    assert expected in line
    assert found == code


def test_too_large_record_and_decreasing_txid_are_refused(cluster: ProcessCluster) -> None:
    large = b"x" * (RECORD_BYTES_MAX + 1)
    code, line = refusal("stream", "append", "known", *cluster.options(), stdin=large)
    assert (code, line) == (
        2,
        f"rhumbline: the last line is longer than {1 << 20} bytes, the maximum of a record",
    )
    code, line = refusal(
        "stream", "append", "known", "--txid", "3", *cluster.options(), stdin=b"three\n"
    )
    assert (code, line) == (1, "rhumbline: stream known: txid 3 is below 8")


def test_missing_cluster_is_reported(tmp_path: Path) -> None:
    code, line = refusal("stream", "ls", cwd=tmp_path)
    assert code == 2
    assert line.startswith("rhumbline: no cluster selected: set --metadata URI")
    code, line = refusal("stream", "ls", "-u", f"sqlite://{tmp_path}/none/m.db")
    assert "an existing directory" in line
    code, line = refusal("stream", "ls", "-u", f"sqlite://{tmp_path}/m.db")
    assert code == 1
    assert "`rhumbline cluster init` initialises one" in line
    code, line = refusal("stream", "ls", "-u", "paper://notes")
    assert code == 2
    assert "unknown scheme 'paper'" in line


def test_region_is_required_if_there_are_several(cluster: ProcessCluster) -> None:
    code, line = refusal("stream", "read", "of-no-region", "-u", cluster.metadata)
    assert code == 2
    assert "bookies in 3 regions (a, b, c): set the region of this process" in line


def test_metadata_commands_need_no_region(cluster: ProcessCluster) -> None:
    for words in (("stream", "ls"), ("node", "ls"), ("region", "ls"), ("namespace", "ls")):
        assert succeeded(*words, "-u", cluster.metadata)


def test_namespace_limited_to_regions_is_created_and_planned(cluster: ProcessCluster) -> None:
    where = ("-u", cluster.metadata)
    succeeded("namespace", "create", "pinned", "--regions", "b,c", *where)
    assert b"b, c" in succeeded("namespace", "describe", "pinned", *where)
    plan = json.loads(succeeded("plan", "-n", "pinned", "--output", "json", *where))
    assert [loss["lost"] for loss in plan["losses"]] == [["b"], ["c"]]
    code, line = refusal("namespace", "create", "nowhere", "--regions", "b,mars", *where)
    assert code == 2
    assert "no bookie is in region mars; the regions are: a, b, c" in line


def test_invalid_metadata_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"this is no database, but long enough to be one\n" * 100)
    code, line = refusal("stream", "ls", "-u", f"sqlite://{tmp_path}/m.db")
    assert code == 1
    assert "m.db" in line


def test_directory_of_another_cluster_is_refused(cluster: ProcessCluster, tmp_path: Path) -> None:
    other = f"sqlite://{tmp_path}/other.db"
    succeeded("cluster", "init", "-u", other)
    directory = tmp_path / "storage"
    succeeded("bookie", "format", str(directory), "--name", "x", "--region", "a", "-u", other)
    code, line = refusal("bookie", "run", str(directory), "-u", cluster.metadata)
    assert code == 1
    assert f"{directory}: this storage belongs to cluster" in line
    code, line = refusal(
        "bookie", "format", str(directory), "--name", "y", "--region", "a", "-u", other
    )
    assert code == 1
    assert "already holds a bookie's storage; choose an empty one" in line
    code, line = refusal("bookie", "run", str(tmp_path), "-u", cluster.metadata)
    assert code == 1
    assert "not a bookie's storage (it holds" in line
    code, line = refusal("bookie", "run", str(tmp_path / "no"), "-u", cluster.metadata)
    assert code == 2
    assert "no such directory; format it first" in line


def test_directory_and_port_in_use_are_refused(cluster: ProcessCluster, tmp_path: Path) -> None:
    running = cluster.bookies[0]
    code, line = refusal("bookie", "run", str(running.directory), "-u", cluster.metadata)
    assert code == 1
    assert "is in use by another process; stop it, or choose another directory" in line
    rows = cluster.run("node", "ls", "-o", "json").decode()
    port = rows.partition("127.0.0.1:")[2].partition('"')[0]
    mine = f"sqlite://{tmp_path}/mine.db"
    succeeded("cluster", "init", "-u", mine)
    directory = tmp_path / "storage"
    succeeded("bookie", "format", str(directory), "--name", "x", "--region", "a", "-u", mine)
    code, line = refusal("bookie", "run", str(directory), "-u", mine, "--port", port)
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}: " in line
    assert "address already in use; choose another address" in line


def test_damaged_identity_file_is_refused(cluster: ProcessCluster, tmp_path: Path) -> None:
    mine = f"sqlite://{tmp_path}/mine.db"
    succeeded("cluster", "init", "-u", mine)
    directory = tmp_path / "storage"
    succeeded("bookie", "format", str(directory), "--name", "x", "--region", "a", "-u", mine)
    identity = directory / "identity"
    identity.write_bytes(identity.read_bytes().replace(b'"a"', b'"b"'))
    code, line = refusal("bookie", "run", str(directory), "-u", mine)
    assert code == 1
    assert "'identity' does not match its checksum" in line
    shutil.rmtree(directory)
    code, line = refusal("bookie", "run", str(directory), "-u", mine)
    assert code == 2


def test_damaged_log_file_loses_nothing(tmp_path: Path) -> None:
    environ = {"RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s"}
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=environ) as cluster:
        cluster.run("stream", "create", "s")
        text = b"".join(b"record %d\n" % number for number in range(5_000))
        cluster.run("stream", "append", "s", stdin=text)
        damaged = cluster.bookies[0]
        damaged.kill()
        log = max((damaged.directory / "log").glob("*"), key=lambda path: path.stat().st_size)
        data = bytearray(log.read_bytes())
        for at in range(len(data) // 4, len(data) // 2, 997):
            data[at] ^= 0xFF
        log.write_bytes(data)
        damaged.start()
        assert cluster.run("stream", "read", "s") == text
        cluster.run("stream", "append", "s", stdin=b"and one more\n")
        assert cluster.run("stream", "read", "s") == text + b"and one more\n"


def set_file_limit(cluster: ProcessCluster, size: int) -> None:
    """Limit the size of a bookie's files, which to the process looks like a full disk."""
    for bookie in cluster.bookies:
        _, hard = resource.prlimit(bookie.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(bookie.pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.long
def test_full_disks_refuse_appends_and_recover(tmp_path: Path) -> None:
    environ = {
        "RHUMBLINE_BOOKIE__SPACE_CHECK_MS": "200ms",
        # The limit holds for the bookies' writes to the metadata store, too.
        "RHUMBLINE_BOOKIE__SESSION_TTL_MS": "2m",
    }
    impatient = {
        "RHUMBLINE_LEDGER__REPLACEMENT_WAIT_MS_MAX": "500ms",
        "RHUMBLINE_LEDGER__RECOVERY_TIMEOUT_MS": "1s",
        "RHUMBLINE_WRITER__FAILOVER_MS_MAX": "2s",
    }
    with ProcessCluster(tmp_path / "cluster", ("a", "b", "c"), environ=environ) as cluster:
        cluster.run("stream", "create", "s")
        cluster.run("stream", "append", "s", stdin=b"before\n")
        set_file_limit(cluster, 1)
        append = ("stream", "append", "s", *cluster.options())
        code, line = refusal(*append, stdin=b"lost\n", environ=impatient)
        assert code == 1
        assert "not acknowledged" in line
        assert "the outcome is unknown: check the current state before you retry" in line
        assert cluster.run("stream", "read", "s") == b"before\n"
        set_file_limit(cluster, resource.RLIM_INFINITY)
        time.sleep(1)  # five checks of the free space
        cluster.run("stream", "append", "s", stdin=b"after\n")
        found = cluster.run("stream", "read", "s").splitlines()
        assert found in ([b"before", b"after"], [b"before", b"lost", b"after"]), "unknown outcome"
