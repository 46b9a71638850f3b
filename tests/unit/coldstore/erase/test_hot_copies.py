"""Segments of which bookies still hold copies are found: an erasure does not reach them."""

from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.relocation import Erasure, Relocation
from rhumbline.coldstore.erase.hot_copies import segments_on_bookies
from rhumbline.core.log.metadata.stream_description import StreamDescription
from rhumbline.core.protocol.errors import UnavailableError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
)


async def hot(world: LogWorld, stream: str = "") -> dict[str, list[int]]:
    found = await segments_on_bookies(world.namespace, stream)
    (described,) = [await world.namespace.describe("s")]
    assert {one.stream_id for one in found.values()} <= {described.stream_id}
    return {name: list(one.lssns) for name, one in found.items()}


async def test_a_segment_counts_until_its_ledger_is_deleted(world: LogWorld) -> None:
    await fill_stream(world)
    assert await hot(world) == {"s": [1, 2, 3, 4]}
    await archive_segments(world, DictColdStore(), upto=4)
    assert await hot(world, "s") == {"s": [1, 2, 3, 4]}
    world.clock.now_ms += 10_000
    await world.namespace.maintain("s")
    assert await hot(world) == {"s": [4]}
    writer = await world.writer("s")
    await writer.append(b"open")
    assert await hot(world) == {"s": [4, 5]}
    assert await hot(world, "deleted") == {}
    await writer.close()


async def test_old_metadata_does_not_say_that_no_bookie_has_copies(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_stream(world)
    old = replace(await world.namespace.describe("s"), metadata_age_ms=5000)

    async def describe(_: str) -> StreamDescription:
        return old

    monkeypatch.setattr(world.namespace, "describe", describe)
    with pytest.raises(UnavailableError, match="5000 ms old"):
        await segments_on_bookies(world.namespace, "s")


@pytest.mark.parametrize("held", [None, (), (4, 5)])
def test_a_proof_says_what_bookies_held(held: tuple[int, ...] | None) -> None:
    erasure = Erasure("operator", "request 17", held)
    relocation = Relocation("test", "s", "1e2feb89414c", 1, 7, (), erasure)
    assert Relocation.decode(relocation.encode()) == relocation
    assert (b"on_bookies" in relocation.encode()) == (held is not None)
