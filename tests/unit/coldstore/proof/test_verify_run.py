"""A verification reads several segments at a time, and a repeat continues where one stopped."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from rhumbline.cli.main import main
from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.proof.verify_run import VerifiedLog, verify_all
from rhumbline.core.protocol.errors import CorruptionError, InvalidArgumentError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)
from rhumbline.tests.unit.spark.spark_world import archive_on_disk


class CountingColdStore(DictColdStore):
    """Counts the parts that are read, and how many at a time."""

    parts_read = active = most_active = 0

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        if not key.endswith(".parquet"):
            return await super().get(key, offset, length)
        self.parts_read += 1
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        await asyncio.sleep(0.01)
        self.active -= 1
        return await super().get(key, offset, length)


async def archived(world: LogWorld) -> CountingColdStore:
    cold = CountingColdStore()
    await fill_stream(world, segments=6)
    await archive_segments(world, cold)
    cold.parts_read = cold.most_active = 0
    return cold


async def test_segments_are_read_at_the_same_time_up_to_a_bound(world: LogWorld) -> None:
    cold = await archived(world)
    done: list[int] = []
    listing = await scan_manifests(cold)
    found = await verify_all(cold, listing, tasks=3, on_done=done.append)
    assert [one.manifest.lssn for one in found] == [1, 2, 3, 4, 5, 6]
    assert not any(one.faults for one in found)
    assert (cold.parts_read, cold.most_active, done) == (6, 3, [1, 2, 3, 4, 5, 6])


async def test_a_repeat_reads_only_what_was_not_intact_before(
    world: LogWorld, tmp_path: Path
) -> None:
    cold = await archived(world)
    listing = await scan_manifests(cold)
    path = tmp_path / "verified"
    damaged = listing.manifests[2]
    key = damaged.part_key(damaged.parts[0])
    data = cold.objects[key]
    cold.objects[key] = data[:-1]
    with VerifiedLog(path, cold.uri) as log:
        found = await verify_all(cold, listing, log=log)
    assert [one.manifest.lssn for one in found if one.faults] == [3]
    cold.objects[key] = data
    cold.parts_read = 0
    with path.open("a") as file:
        file.write('{"key": "torn')
    with VerifiedLog(path, cold.uri) as log:
        assert not any(one.faults for one in await verify_all(cold, listing, log=log))
    assert cold.parts_read == 1
    with VerifiedLog(path, cold.uri) as log:
        await verify_all(cold, listing, log=log)
    assert cold.parts_read == 1


def test_a_list_of_another_store_or_of_other_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "verified"
    with VerifiedLog(path, "memory:a"):
        pass
    with pytest.raises(InvalidArgumentError, match="memory:a, not memory:b"):
        VerifiedLog(path, "memory:b").__enter__()
    path.write_text("no JSON\n")
    with pytest.raises(CorruptionError, match="not a list of verified segments"):
        VerifiedLog(path, "memory:a").__enter__()


def test_the_command_continues_an_earlier_run(tmp_path: Path) -> None:
    archive_on_disk(tmp_path / "cold")
    given = ["archive", "verify", "--cold", (tmp_path / "cold").as_uri(), "-o", "json",
             "--tasks", "2", "--resume", str(tmp_path / "verified")]  # fmt: skip
    for _ in range(2):
        done = CliRunner().invoke(main, given)
        assert done.exit_code == 0, done.output
        assert done.output.count('"verdict": "ok"') == 4
    assert len((tmp_path / "verified").read_text().splitlines()) == 5


def test_the_command_says_how_many_segments_it_has_not_read(tmp_path: Path) -> None:
    archive_on_disk(tmp_path / "cold")
    log = tmp_path / "verified"
    given = ["archive", "verify", "--cold", (tmp_path / "cold").as_uri(), "--resume", str(log)]
    ends = [CliRunner().invoke(main, given).output.strip().rpartition(": ")[2]]
    ends.append(CliRunner().invoke(main, given).output.strip().rpartition(": ")[2])
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    ends.append(CliRunner().invoke(main, given).output.strip().rpartition(": ")[2])
    correct = "all bytes read are correct"
    assert ends == [
        "all bytes are correct",
        f"{correct}; 4 segments were skipped, verified by an earlier run",
        f"{correct}; 1 segment was skipped, verified by an earlier run",
    ]
