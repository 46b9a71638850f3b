"""The benchmark of the durability report, in a short form: equal layouts are judged once."""

import asyncio
from typing import Any

from rhumbline.bench.durability import measure_report

LEDGERS = 600


def test_the_report_is_computed_by_layout_and_not_by_ledger() -> None:
    async def rows() -> list[dict[str, Any]]:
        return [row async for row in measure_report(LEDGERS)]

    shared, distinct = asyncio.run(rows())
    print(shared, distinct)
    assert shared["ledgers"] == LEDGERS
    assert shared["groups"] <= 4**3 * 2 < distinct["groups"]
    assert shared["reduced"] > LEDGERS / 6, "every fourth bookie of a region, also in open ledgers"
