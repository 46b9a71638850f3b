"""A registrar that crashes at any call adds each segment to a table once (rule ARC-41)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import archive_on_disk

SEGMENTS = 2
CALLS = [
    (PyArrowFileIO, "new_input"),
    (PyArrowFileIO, "new_output"),
    (SqlCatalog, "create_namespace_if_not_exists"),
    (SqlCatalog, "create_table"),
    (SqlCatalog, "commit_table"),
]


class _CrashError(BaseException):
    """A simulated crash of the process: nothing handles it."""


class Crash:
    """Crashes at call number ``at`` to the storage or the catalogue, before or after it."""

    def __init__(self, at: int, *, is_before: bool) -> None:
        self._at = at
        self._is_before = is_before
        self.calls = 0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``call`` with the crash."""

        def crashing(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - any call
            self.calls += 1
            if self.calls >= self._at and self._is_before:
                raise _CrashError
            result = call(*given, **options)
            if self.calls >= self._at:
                raise _CrashError
            return result

        return crashing


async def register(root: Path) -> TableWorld:
    world = TableWorld(root)
    try:
        result = await world.registrar().run_once()
        assert not result.faults
    finally:
        await world.close()
    return world


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
def test_a_crash_at_any_call_adds_each_segment_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_before: bool
) -> None:
    at, is_complete = 0, False
    states: list[int] = []
    while not is_complete:
        at += 1
        root = tmp_path / str(at) / "cold"
        root.mkdir(parents=True)
        rows = archive_on_disk(root, segments=SEGMENTS)
        crash = Crash(at, is_before=is_before)
        with monkeypatch.context() as patch:
            for owner, name in CALLS:
                patch.setattr(owner, name, crash.around(getattr(owner, name)))
            try:
                asyncio.run(register(root))
                is_complete = True
            except _CrashError:
                pass
        world = TableWorld(root)
        exists = world.catalog().table_exists(("test", "s"))
        states.append(len(world.snapshots()) if exists else 0)
        asyncio.run(register(root))
        assert world.snapshots() == [("append", str(lssn)) for lssn in range(1, SEGMENTS + 1)]
        assert world.table().scan().count() == len(rows)
        assert len(world.table().inspect.files()) == SEGMENTS
        asyncio.run(world.close())
    assert states == sorted(states), "with more calls, no less is registered"
    assert {*states} == {*range(SEGMENTS + 1)}
    assert at > 3 * SEGMENTS
