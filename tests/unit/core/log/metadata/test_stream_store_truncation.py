"""Tests of truncation by the application: it hides records and never moves back."""

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import InvalidArgumentError, TruncatedError
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world


@in_world
async def test_truncated_records_stay_hidden(world: LogWorld) -> None:
    writer = await world.writer("s")
    results = [await writer.append(b"%d" % n) for n in range(5)]
    await writer.close()
    third = results[2].dlsn
    assert await world.namespace.truncate("s", third) == third
    assert await world.namespace.truncate("s", results[0].dlsn) == third
    reader = await world.namespace.open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"2"
    await reader.aclose()
    with pytest.raises(TruncatedError):
        await world.namespace.open_reader("s", results[1].dlsn)


@in_world
async def test_truncation_beyond_the_last_segment_is_refused(world: LogWorld) -> None:
    await (await world.writer("s")).close()
    with pytest.raises(InvalidArgumentError, match="has no segment 9; its last is 1"):
        await world.namespace.truncate("s", Dlsn(9, 0, 0))
