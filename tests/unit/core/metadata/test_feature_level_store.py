import asyncio
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.feature_level_store import raise_feature_level, read_feature_level
from rhumbline.core.metadata.feature_levels import FeatureRecord, LevelRange
from rhumbline.core.protocol.errors import InvalidArgumentError, RefusedError
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

OLD, NEW = LevelRange(1, 1), LevelRange(1, 2)


async def nobody(_: int) -> list[str]:
    return []


async def somebody(_: int) -> list[str]:
    return ["bookie b1"]


async def raised(store: MetadataStore, level: int) -> FeatureRecord:
    return await raise_feature_level(store, level, nobody, known=LevelRange(1, 3))


async def test_the_level_is_raised_and_never_lowered() -> None:
    store = MemoryStore()
    assert await read_feature_level(store) == FeatureRecord(1)
    assert await raised(store, 1) == FeatureRecord(1)
    assert await raised(store, 2) == await raised(store, 2) == FeatureRecord(2)
    assert await raised(store, 3) == await read_feature_level(store) == FeatureRecord(3)
    with pytest.raises(
        InvalidArgumentError, match="is at feature level 3, which cannot be lowered"
    ):
        await raised(store, 2)
    with pytest.raises(InvalidArgumentError, match="knows levels 1 to 3, not 4"):
        await raised(store, 4)


async def test_a_process_that_does_not_know_the_level_prevents_it() -> None:
    store = MemoryStore()
    with pytest.raises(RefusedError, match=r"1 running processes .* level 2: bookie b1"):
        await raise_feature_level(store, 2, somebody, known=NEW)
    assert await read_feature_level(store) == FeatureRecord(1, 0), "the intention is withdrawn"


async def test_a_command_that_was_killed_is_repeated() -> None:
    store = MemoryStore()

    async def killed(_: int) -> list[str]:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await raise_feature_level(store, 2, killed, known=NEW)
    assert await read_feature_level(store) == FeatureRecord(1, 2)
    assert await raised(store, 1) == FeatureRecord(1, 0), "the present level withdraws it"
    assert await raised(store, 2) == FeatureRecord(2)


async def test_an_intention_that_another_command_withdrew_does_not_count() -> None:
    """The first command looks, another one withdraws, a third begins again: the first must stop."""
    store = MemoryStore()

    async def others_work(_: int) -> list[str]:
        with pytest.raises(RefusedError):
            await raise_feature_level(store, 2, somebody, known=NEW)
        with pytest.raises(RefusedError):
            await raise_feature_level(store, 2, others_die, known=NEW)
        return []

    async def others_die(_: int) -> list[str]:
        raise RefusedError("the third command ends")

    with pytest.raises(RefusedError, match="another command changed the feature level"):
        await raise_feature_level(store, 2, others_work, known=NEW)
    assert (await read_feature_level(store)).level == 1


@pytest.mark.seeds(40)
@pytest.mark.run_by(runner=run_jumping)
async def test_no_old_process_serves_at_a_level_that_it_does_not_know(seed: int) -> None:
    """Old processes start while a command raises the level, in many interleavings (rule UPG-2)."""
    random, tree = Random(seed), MemoryStore()
    registered: dict[str, LevelRange] = {}
    refused: set[str] = set()

    async def pause() -> None:
        await asyncio.sleep(random.random() / 100)

    async def start(name: str) -> None:
        await asyncio.sleep(random.random() / 10)
        registered[name] = OLD
        await tree.create(f"/process-{name}", b"")
        await pause()
        record = await read_feature_level(tree)
        if max(record.level, record.raising) > OLD.newest:
            refused.add(name)
            await pause()
            await tree.delete(f"/process-{name}")

    async def find_older(_: int) -> list[str]:
        await pause()
        found = [name for name in await tree.children("/") if name.startswith("process-")]
        await pause()
        return found

    async def command() -> None:
        await asyncio.sleep(random.random() / 10)
        for _ in range(3):
            try:
                await raise_feature_level(tree, 2, find_older, known=NEW)
            except RefusedError:
                await pause()

    starts = [start(str(number)) for number in range(3)]
    await asyncio.gather(command(), command(), *starts[: random.randrange(4)])
    for rest in starts:
        rest.close()
    if (await read_feature_level(tree)).level == 2:
        assert refused == set(registered), "an old process serves at level 2"
