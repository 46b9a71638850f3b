"""The proofs of erasures can be listed: who erased which records, when and why."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from rhumbline.cli.main import main
from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore, read_records
from rhumbline.tests.unit.coldstore.compact.compaction_world import compact_completely
from rhumbline.tests.unit.coldstore.erase.test_eraser import (
    BY_KEY,
    ERASURE,
    KEY,
    LATE_MS,
    archived,
    erase,
    settle,
)

OTHER = RecordSelection(frozenset({b"k19"}))


def erased_twice(world: LogWorld, root: Path) -> tuple[ArchiveFolder, list[str], list[str]]:
    """Write an archive from which two keys were erased; return the positions of both."""
    cold = DictColdStore()
    positions: dict[bytes, list[str]] = {}

    async def make() -> ArchiveFolder:
        folder = await archived(world, cold)
        for one in await read_records(world):
            if one.key in (KEY, b"k19"):
                positions.setdefault(one.key, []).append(str(one.dlsn.in_stream("")))
        await compact_completely(cold)
        await erase(cold, BY_KEY)
        await erase(cold, OTHER, LATE_MS + 1)
        await settle(cold)
        return folder

    folder = world.run(make())
    for key, data in cold.objects.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)
    return folder, positions[KEY], positions[b"k19"]


def command(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["archive", *arguments, "--cold", root.as_uri()])


def test_each_erasure_is_listed_with_what_it_added(world: LogWorld, tmp_path: Path) -> None:
    _, *positions = erased_twice(world, tmp_path)
    shown = command(tmp_path, "erasures", "test/s", "--positions", "--output", "json")
    rows = json.loads(shown.stdout)
    assert [(one["stream"], one["erased_by"], one["reason"]) for one in rows] == [
        ("test/s", ERASURE.erased_by, ERASURE.reason)
    ] * 2
    assert [one["records"] for one in rows] == [2, 2]
    assert [one["segments"] for one in rows] == [[2, 4], [2, 4]]
    assert rows[0]["erased_at"] == "1970-01-01T02:46:40.000Z"
    for row, expected in zip(rows, positions, strict=True):
        assert [one["first"] for one in row["positions"]] == expected
        assert [one["last"] for one in row["positions"]] == expected
        assert [Dlsn.parse(one).lssn for one in expected] == [2, 4]
    short = json.loads(command(tmp_path, "erasures", "--output", "json").stdout)
    assert "positions" not in short[0]
    assert "nothing was erased" in command(tmp_path, "erasures", "other").stdout
    verified = command(tmp_path, "verify")
    assert verified.exit_code == 0
    assert "4 records of 2 segments were erased, and are absent" in verified.stderr


def test_a_lost_proof_is_an_error_of_both_commands(world: LogWorld, tmp_path: Path) -> None:
    folder, *_ = erased_twice(world, tmp_path)
    _, proof, *_ = sorted((tmp_path / folder.relocations).iterdir())
    proof.unlink()
    for name in ("erasures", "verify"):
        done = command(tmp_path, name)
        assert done.exit_code == 1
        assert "the erasure is missing" in done.output + str(done.exception)
