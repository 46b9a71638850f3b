"""The target follows the source, although both programs are killed and a region is cut off."""

import asyncio
import sqlite3
from pathlib import Path

from change_propagation import (
    STREAM,
    Publisher,
    Subscriber,
    customers,
    open_source,
    open_target,
)

from rhumbline.testing import Rehearsal, RehearsalFactory


def change(source: sqlite3.Connection, first: int) -> None:
    """Insert, update and delete some customers; undo one transaction."""
    with source:
        rows = [(first + n, f"name {first + n}", "Rome") for n in range(10)]
        source.executemany("INSERT INTO customers VALUES (?, ?, ?)", rows)
        source.execute("UPDATE customers SET city = 'Oslo' WHERE id = ?", (first + 3,))
    with source:
        source.execute("DELETE FROM customers WHERE id = ?", (first + 5,))
    source.execute("DELETE FROM customers")
    source.rollback()


async def until_equal(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    async with asyncio.timeout(60):
        while customers(source) != customers(target):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def test_the_target_equals_the_source_after_kills(
    rhumbline_cluster: RehearsalFactory, tmp_path: Path
) -> None:
    source, target = open_source(tmp_path / "source"), open_target(tmp_path / "target")

    async def scenario(cluster: Rehearsal) -> None:
        await cluster.create_stream(STREAM)
        for round_ in range(4):
            publishing = cluster.start_program("east", Publisher(source).run)
            applying = cluster.start_program("west", Subscriber(target).run)
            for part in range(3):
                change(source, 1000 * round_ + 100 * part)
                await asyncio.sleep(0.13 * (round_ + part))
            if round_ == 2:
                cluster.cut_region("east")
                await asyncio.sleep(10)
                cluster.heal_region("east")
            if round_ == 3:
                await until_equal(source, target)
            publishing.kill()
            applying.kill()
        assert len(await cluster.read_payloads(STREAM)) == 4 * 3 * 12, "each change is there once"

    rhumbline_cluster(regions=3).run(scenario)
    assert len(customers(target)) == 4 * 3 * 9
    assert source.execute("SELECT count(*) FROM changes").fetchone() == (0,)
    source.close()
    target.close()
