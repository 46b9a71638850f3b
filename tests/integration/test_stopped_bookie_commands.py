"""The commands for a stopped bookie, on the directory of a real one."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rhumbline.tests.support.processes.process_cluster import (
    ProcessCluster,
    refusal,
    rhumbline,
    succeeded,
)

LINES = [f"line {number}".encode() for number in range(200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    root = tmp_path_factory.mktemp("stopped") / "cluster"
    with ProcessCluster(root, ("a", "b", "c")) as running:
        running.run("stream", "create", "known")
        running.run("stream", "append", "known", stdin=b"\n".join(LINES) + b"\n")
        yield running


@pytest.fixture
def directory(cluster: ProcessCluster, tmp_path: Path) -> Path:
    """Return a copy of a bookie's directory that the test may damage."""
    bookie = cluster.bookies[0]
    copy = tmp_path / "copy"
    shutil.copytree(bookie.directory, copy)
    return copy


def verified(directory: Path) -> dict[str, Any]:
    text = succeeded("bookie", "verify", str(directory), "-o", "json")
    return cast(dict[str, Any], json.loads(text))


def listed(directory: Path) -> list[dict[str, Any]]:
    text = succeeded("bookie", "ls", str(directory), "-o", "json")
    return cast(list[dict[str, Any]], json.loads(text))


def dumped(directory: Path, *options: str) -> list[dict[str, Any]]:
    text = succeeded("bookie", "dump", str(directory), "-o", "json", *options)
    return cast(list[dict[str, Any]], json.loads(text))


def test_verify_ls_and_dump_agree(directory: Path) -> None:
    summary = verified(directory)
    ledgers = listed(directory)
    entries = dumped(directory)
    assert summary["damaged_regions"] == 0
    assert summary["entries"] == sum(ledger["entries"] for ledger in ledgers) == len(entries) > 0
    (ledger,) = (row for row in ledgers if row["entries"])
    assert ledger["state"] in ("open", "fenced")
    assert dumped(directory, "--ledger", str(ledger["ledger"])) == entries
    assert dumped(directory, "--ledger", "999") == []
    assert [entry["entry"] for entry in entries] == list(range(ledger["last"] + 1))
    table = succeeded("bookie", "ls", str(directory)).decode().splitlines()
    assert table[0].split() == ["LEDGER", "ENTRIES", "SIZE", "LAST", "LAC", "STATE"]


def test_flipped_bit_is_found_by_every_command(directory: Path) -> None:
    damaged, *_ = dumped(directory)
    with (directory / damaged["file"]).open("r+b") as file:
        file.seek(damaged["offset"] + 10)
        byte = file.read(1)[0]
        file.seek(damaged["offset"] + 10)
        file.write(bytes([byte ^ 1]))
    for command in ("verify", "ls", "rebuild-index"):
        code, line = refusal("bookie", command, str(directory))
        assert code == 1
        assert line.startswith(f"rhumbline: {directory}: 1 damaged regions"), line
    assert damaged not in dumped(directory)


def test_rebuilt_index_is_used(cluster: ProcessCluster) -> None:
    bookie = cluster.bookies[1]
    assert bookie.stop() == 0
    try:
        entries = verified(bookie.directory)["entries"]
        (bookie.directory / "index" / "data.mdb").write_bytes(b"nonsense" * 1000)
        done = rhumbline("bookie", "rebuild-index", str(bookie.directory))
        assert done.returncode == 0, done.stderr.decode()
        assert re.search(rf" {entries} entr(y|ies) indexed in ", done.stderr.decode())
    finally:
        bookie.start()
    text = cluster.run("stream", "read", "known")
    assert text.splitlines() == LINES


def test_limbo_ends_only_with_confirmation(directory: Path, tmp_path: Path) -> None:
    assert succeeded("bookie", "clear-limbo", str(directory)) == b""
    path = max((directory / "log").iterdir())
    path.write_bytes(path.read_bytes()[:-3])
    config = tmp_path / "other-boot.toml"
    config.write_text('[bookie]\nboot_id = "another"\n')
    arguments = ("bookie", "clear-limbo", str(directory), "--config", str(config))
    for _ in range(2):  # the refusal changes nothing
        code, line = refusal(*arguments)
        assert code == 3
        assert "1 ledger is in limbo" in line
        assert "give --yes" in line
    assert "in limbo" in succeeded("bookie", "ls", str(directory)).decode()
    succeeded(*arguments, "--yes")
    assert "in limbo" not in succeeded("bookie", "ls", str(directory)).decode()


def test_mistakes_are_reported_in_one_line(cluster: ProcessCluster, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    lost = tmp_path / "lost"
    shutil.copytree(cluster.bookies[0].directory, lost)
    shutil.rmtree(lost / "log")
    expected = {
        tmp_path / "nowhere": (2, "no such directory"),
        empty: (1, "the directory was never formatted as a bookie's storage"),
        foreign: (1, "the directory is not a bookie's storage (it holds 'notes.txt')"),
        cluster.bookies[0].directory: (1, "is in use by another process; stop it"),
        lost: (1, "the write log of this bookie is missing"),
    }
    for command in ("verify", "ls", "dump", "rebuild-index", "clear-limbo"):
        for directory, (code, text) in expected.items():
            if (command, directory) == ("dump", lost):
                continue  # dump prints the files that exist
            found, line = refusal("bookie", command, str(directory))
            assert (found, text in line, str(directory) in line) == (code, True, True), line
    assert list(empty.iterdir()) == []
    assert refusal("bookie", "dump", str(empty), "--ledger", "x")[0] == 2
