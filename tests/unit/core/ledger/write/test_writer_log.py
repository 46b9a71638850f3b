"""A ledger writer that ends by itself logs why, with its last transitions."""

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.protocol.errors import LedgerFencedError, RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.ledger.world import Outcomes, World, run_in_world, until

pytestmark = pytest.mark.run_by(runner=run_in_world)

ALL = Quorum(3, 3, 3, 1)
LINES = "rhumbline.core.ledger.write"


async def test_a_fenced_writer_has_one_line_with_its_story() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(ALL)
        for bookie in world.bookies:
            bookie.fenced[writer.ledger_id] = None
        done = Outcomes()
        with recorded_log(LINES) as log:
            writer.add(b"a", done)
            writer.add(b"b", done)
            await until(lambda: len(done.all) == 2)
        assert isinstance(writer.failure, LedgerFencedError)
        assert log.events() == ["ledger writer fenced"]
        [line] = log.fields("ledger writer fenced")
        error = f"LedgerFencedError: {writer.failure}"
        assert (line["ledger"], line["error"]) == (writer.ledger_id, error)
        assert line["story"].endswith(f" s: OPEN -> FAILED by FAIL ({error})")


async def test_a_writer_without_enough_bookies_has_one_line_with_its_story() -> None:
    world = World("abcd")
    async with world.client(config=LedgerConfig(quorum_timeout_ms=3_000)) as client:
        writer = await client.create(ALL)
        done = Outcomes()
        members = [world.by_id[bookie] for bookie in writer.metadata.last_fragment.bookies]
        with recorded_log(LINES) as log:
            members[1].go_down()
            writer.add(b"a", done)
            await until(lambda: done.acked == [0])
            for bookie in world.bookies:
                bookie.go_down()
            writer.add(b"b", done)
            await until(lambda: len(done.all) == 2)
        assert isinstance(writer.failure, RhumblineError)
        assert log.events() == ["ensemble changed", "ledger writer failed"]
        [line] = log.fields("ledger writer failed")
        assert line["error"].partition(":")[0] == type(writer.failure).__name__
        transitions = [part.split()[2:7] for part in line["story"].split("; ")]
        assert transitions[0][0] == "COMMITTING", "the latest transitions that fit in"
        assert transitions[-1] == ["CHOOSING", "->", "FAILED_CHANGING", "by", "FAIL"]


async def test_a_writer_that_its_owner_closes_logs_nothing() -> None:
    world = World("abc")
    with recorded_log(LINES) as log:
        async with world.client() as client:
            await (await client.create(ALL)).close()
            await client.create(ALL)
    assert log.events() == []
