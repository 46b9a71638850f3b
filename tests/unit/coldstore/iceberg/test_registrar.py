"""Tables follow their archives: one commit for each segment, whatever fails between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.archive.catalog import archived_segments
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.manifest import CHAIN_START, Manifest
from rhumbline.coldstore.iceberg import iceberg_tables
from rhumbline.coldstore.iceberg import registrar as registrar_module
from rhumbline.coldstore.iceberg.registrar import TablePass
from rhumbline.coldstore.proof.chain_tip import empty_tip
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import archive_on_disk, manifest_path

ALL = [("append", "1"), ("append", "2"), ("append", "3"), ("append", "4")]


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[TableWorld]:
    """Yield an archive of four segments."""
    world = TableWorld(root / "cold")
    try:
        yield world
    finally:
        await world.close()


def on_disk(root: Path) -> list[Any]:
    return list(archive_on_disk(root / "cold"))


def recreate(root: Path) -> None:
    """Copy the archive to that of another stream, which has the same name."""
    others: list[Manifest] = []
    for path in sorted(root.glob("test/s/_chain/*/manifest-*")):
        manifest = Manifest.decode(path.read_bytes())
        link = others[-1].link if others else CHAIN_START
        other = replace(manifest, stream_identity="f" * 32, previous_link=link)
        others.append(other)
        for part in manifest.parts:
            target = root / other.part_key(part)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes((root / manifest.part_key(part)).read_bytes())
        (root / other.key).parent.mkdir(exist_ok=True)
        (root / other.key).write_bytes(other.encode())
    tip = empty_tip(others[0]).with_last(others[-1])
    (root / tip.folder.tips).mkdir()
    (root / tip.folder.tip(tip.name)).write_bytes(tip.encode())


async def expire(world: TableWorld, below: int) -> None:
    """Delete archives as retention does."""
    (folder,) = await archived_segments(world.cold, "test", "s")
    archives = ColdArchives(world.cold, "test")
    await archives.expire("s", folder.stream_id, below=below, completed_by_ms=2**60)


def delete_segment(root: Path, lssn: int) -> None:
    manifest_path(root / "cold", lssn).unlink()
    for path in (root / "cold").glob(f"test/s/*/segment-{lssn:019d}-*"):
        path.unlink()


def test_every_segment_is_one_commit_with_all_records(tmp_path: Path) -> None:
    rows = on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as world:
            with recorded_log("rhumbline.coldstore.iceberg") as log:
                first = await world.registrar().run_once()
                second = await world.registrar().run_once()
            assert (first.registered, second.registered, first.waiting) == (4, 0, {})
            ids = {"namespace": "test", "stream": "s"}
            assert log.fields("segment registered") == [{**ids, "segment": n} for n in range(1, 5)]
            assert world.snapshots() == ALL
            found = (
                world.table()
                .scan()
                .to_arrow()
                .sort_by([("lssn", "ascending"), ("entry_id", "ascending"), ("slot", "ascending")])
            )
            assert found.column("payload").to_pylist() == [row[2] for row in rows]
            (summary,) = await world.tables.summaries("test")
            assert (summary.table, summary.records, summary.snapshots) == ("test.s", len(rows), 4)
            assert (summary.state.first_lssn, summary.state.last_lssn) == (1, 4)

    asyncio.run(check())


def test_a_lost_reply_adds_no_segment_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second commit fails, half of them after they were carried out."""
    on_disk(tmp_path)
    commit, calls = Table._do_commit, 0

    def failing(self: Table, updates: Any, requirements: Any) -> None:  # noqa: ANN401
        nonlocal calls
        calls += 1
        if calls % 4 == 0:
            raise OSError("no route to the catalogue")
        commit(self, updates, requirements)
        if calls % 2 == 0:
            raise CommitStateUnknownException("the connection was closed")

    monkeypatch.setattr(Table, "_do_commit", failing)

    async def check() -> None:
        async with opened(tmp_path) as world:
            registrar = world.registrar()
            failures = 0
            for _ in range(10):
                failures += len((await registrar.run_once()).faults)
            assert failures >= 2
            assert registrar.statistics()["waiting_segments"] == 0
            assert world.snapshots() == ALL
            assert len(world.table().inspect.files()) == len(
                list(world.root.glob("test/s/*/segment-*"))
            )

    asyncio.run(check())


def test_two_processes_register_every_segment_once(tmp_path: Path) -> None:
    on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as one, opened(tmp_path) as other:
            registrars = [one.registrar(), other.registrar()]
            for _ in range(10):
                await asyncio.gather(*(registrar.run_once() for registrar in registrars))
            assert one.snapshots() == ALL
            assert sum(registrar.counts.registered for registrar in registrars) == 4
            assert len(await one.tables.summaries("test")) == 1

    asyncio.run(check())


def test_archives_that_are_deleted_leave_the_table(tmp_path: Path) -> None:
    rows = on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as world:
            registrar = world.registrar()
            await registrar.run_once()
            await expire(world, below=3)
            assert (await registrar.run_once()).removed == 1
            assert world.snapshots() == [*ALL, ("delete", None)]
            left = [row[2] for row in rows if int(row[0].split(":")[0]) > 2]
            assert sorted(world.table().scan().to_arrow()["payload"].to_pylist()) == sorted(left)
            await expire(world, below=9)
            assert (await registrar.run_once()).removed == 1
            assert world.table().scan().count() == 0
            assert registrar.statistics()["waiting_segments"] == 0

    asyncio.run(check())


def test_a_missing_segment_holds_the_table_and_is_reported(tmp_path: Path) -> None:
    on_disk(tmp_path)
    delete_segment(tmp_path, 3)

    async def check() -> None:
        async with opened(tmp_path) as world:
            registrar = world.registrar()
            result = await registrar.run_once()
            (fault,) = result.faults.values()
            assert "manifest-0000000000000000003.json: the manifest is missing" in fault
            assert world.snapshots() == ALL[:2]
            world.clock.now_ms += 5_000
            behind = registrar.statistics()
            assert (behind["waiting_segments"], behind["behind_ms"]) == (2, 5_000)

    asyncio.run(check())


def test_damage_to_the_archive_removes_nothing_from_the_table(tmp_path: Path) -> None:
    """The oldest manifest is lost, then the tip: neither is mistaken for retention."""
    on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as world:
            registrar = world.registrar()
            await registrar.run_once()
            delete_segment(tmp_path, 1)
            assert (await registrar.run_once()).removed == 0
            for path in world.root.glob("test/s/_chain/*/*/*"):
                path.unlink()
            (fault,) = (await registrar.run_once()).faults.values()
            assert "the tip of the chain is missing" in fault
            assert world.snapshots() == ALL

    asyncio.run(check())


def test_a_catalogue_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as world:

            def refuse(*_: object, **__: object) -> None:
                raise ConnectionRefusedError("refused")

            with monkeypatch.context() as patch, recorded_log("rhumbline.coldstore.iceberg") as log:
                patch.setattr(iceberg_tables, "load_catalog", refuse)
                passes: asyncio.Queue[TablePass] = asyncio.Queue()
                registrar = world.registrar(on_pass=passes.put_nowait)
                running = asyncio.ensure_future(registrar.run())
                for _ in range(3):
                    assert (await passes.get()).faults
                patch.undo()
                while not (await passes.get()).registered:
                    pass
                running.cancel()
                await asyncio.wait([running])
            (warning, *_) = log.fields("registering failed")
            error = "Iceberg catalogue: ConnectionRefusedError: refused"
            assert warning == {"namespace": "test", "stream": "s", "error": error}
            assert world.snapshots() == ALL

    asyncio.run(check())


def test_a_recreated_stream_has_a_table_of_its_own(tmp_path: Path) -> None:
    """The first stream of the name keeps the plain name of its table (rule ARC-42)."""

    async def register() -> None:
        async with opened(tmp_path) as world:
            assert not (await world.registrar().run_once()).faults

    on_disk(tmp_path)
    asyncio.run(register())
    recreate(tmp_path / "cold")
    asyncio.run(register())

    async def check() -> None:
        async with opened(tmp_path) as world:
            names = {name[-1] for name in world.catalog().list_tables(("test",))}
            assert names == {"s", "s_ffffffffffff"}
            assert world.snapshots() == world.snapshots("s_ffffffffffff") == ALL

    asyncio.run(check())


def test_an_exchanged_archive_is_not_registered(tmp_path: Path) -> None:
    on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as world:
            await world.registrar().run_once()
            table = world.table()
            with table.transaction() as transaction:
                transaction.set_properties(
                    {"rhumbline.last-lssn": "0", "rhumbline.last-link": "other"}
                )
            (fault,) = (await world.registrar().run_once()).faults.values()
            assert "does not follow the segment that was registered last" in fault

    asyncio.run(check())


def test_a_table_that_was_dropped_is_an_error_until_the_next_pass(tmp_path: Path) -> None:
    on_disk(tmp_path)

    async def check() -> None:
        async with opened(tmp_path) as world:
            await world.registrar().run_once()
            (folder,) = await archived_segments(world.cold, "test", "s")
            state = await world.tables.state(folder)
            assert state is not None
            world.catalog().drop_table(("test", "s"))
            with pytest.raises(Exception, match="was dropped"):
                await world.tables.remove(folder, 2, state)
            assert (await world.registrar().run_once()).registered == 4

    asyncio.run(check())


def test_a_listing_that_fails_is_the_callers_error(tmp_path: Path) -> None:
    async def check() -> None:
        async with opened(tmp_path) as world:

            async def refuse(prefix: str = "") -> list[str]:
                raise UnavailableError("no route to the store")

            world.cold.list = refuse  # type: ignore[method-assign]
            with pytest.raises(UnavailableError):
                await world.registrar().run_once()
            assert await world.tables.state(ArchiveFolder("test", "s", "none")) is None

    asyncio.run(check())


def files(root: Path, pattern: str) -> set[Path]:
    return set(root.glob(f"cold/test/{pattern}"))


def test_old_snapshots_are_removed_and_the_table_keeps_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are never deleted, and neither is a snapshot that a tag names (rule ARC-48)."""
    rows = on_disk(tmp_path)
    parts = files(tmp_path, "s/*/*.parquet")

    async def check() -> None:
        async with opened(tmp_path) as world:
            world.clock.now_ms = 2**42
            with monkeypatch.context() as patch:
                patch.setattr(registrar_module, "STEPS_PER_PASS_MAX", 3)
                assert (await world.registrar(snapshots_kept_ms=1).run_once()).expired == 0
            world.table().manage_snapshots().create_tag(
                world.table().snapshots()[1].snapshot_id, "kept"
            ).commit()
            manifests = files(tmp_path, "s/_iceberg/*/*.avro")
            monkeypatch.setattr(iceberg_tables, "EXPIRED_MIN", 2)
            last = await world.registrar(snapshots_kept_ms=1).run_once()
            assert (last.registered, last.expired) == (1, 2)
            assert world.snapshots() == [ALL[1], ALL[3]]
            assert world.table().scan().to_arrow().num_rows == len(rows)
            (tagged, _) = world.table().snapshots()
            held = [row for row in rows if int(row[0].split(":")[0]) <= 2]
            assert world.table().scan(snapshot_id=tagged.snapshot_id).count() == len(held)
            assert not manifests <= files(tmp_path, "s/_iceberg/*/*.avro")
            assert (await world.registrar(snapshots_kept_ms=1).run_once()).expired == 0
        assert files(tmp_path, "s/*/*.parquet") == parts

    asyncio.run(check())


def test_a_branch_does_not_hide_who_needs_a_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit to a branch lies between the removed snapshots and those that need their files."""
    rows = on_disk(tmp_path)
    monkeypatch.setattr(iceberg_tables, "EXPIRED_MIN", 2)

    async def check() -> None:
        async with opened(tmp_path) as world:
            world.clock.now_ms = 2**42
            with monkeypatch.context() as patch:
                patch.setattr(registrar_module, "STEPS_PER_PASS_MAX", 3)
                await world.registrar(snapshots_kept_ms=2**42).run_once()
            table = world.table()
            begin = table.snapshots()[0].snapshot_id
            table.manage_snapshots().create_branch(begin, "side").commit()
            one = table.scan(snapshot_id=begin).to_arrow().slice(0, 1)
            table.append(one, branch="side")
            last = await world.registrar(snapshots_kept_ms=1).run_once()
            assert (last.registered, last.expired) == (1, 3)
            assert world.table().scan().to_arrow().num_rows == len(rows)
            side = world.table().scan().use_ref("side").to_arrow()
            held = [row for row in rows if row[0].startswith("1:")]
            assert side.num_rows == len(held) + 1

    asyncio.run(check())
