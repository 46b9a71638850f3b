from collections.abc import Sequence
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster, instance_id
from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS, FeatureRecord, LevelRange
from rhumbline.core.protocol.errors import (
    CorruptionError,
    FeatureLevelError,
    ForeignDataError,
    MetadataUnavailableError,
)
from rhumbline.core.runtime.metadata_store import Value


def test_a_record_without_a_value_is_at_the_first_level() -> None:
    assert FeatureRecord.decode(None) == FeatureRecord(1, 0)
    record = FeatureRecord(3, 4)
    assert record.encode() == b'{"v":1,"level":3,"raising":4}'
    assert FeatureRecord.decode(record.encode()) == record


@pytest.mark.parametrize("data", [b"", b'{"v":1}', b'{"v":1,"level":0,"raising":0}'])
def test_damaged_records_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        FeatureRecord.decode(data)


def test_a_record_of_a_later_format_is_refused() -> None:
    with pytest.raises(ForeignDataError):
        FeatureRecord.decode(b'{"v":2,"level":3}')


@pytest.mark.parametrize(
    "record, message",
    [
        (
            FeatureRecord(1),
            "is at feature level 1, .* knows levels 2 to 3: raise the level with an",
        ),
        (
            FeatureRecord(4),
            "is at feature level 4, .* knows levels 2 to 3: install a newer version",
        ),
        (FeatureRecord(3, 4), "is being raised to feature level 4, .*: install a newer version"),
    ],
)
def test_a_program_refuses_levels_that_it_does_not_know(
    record: FeatureRecord, message: str
) -> None:
    with pytest.raises(FeatureLevelError, match=message):
        record.check_known(LevelRange(2, 3))


@pytest.mark.parametrize("record", [FeatureRecord(2), FeatureRecord(2, 3), FeatureRecord(3)])
def test_a_program_runs_at_each_level_that_it_knows(record: FeatureRecord) -> None:
    record.check_known(LevelRange(2, 3))


async def test_no_process_starts_above_the_levels_that_it_knows() -> None:
    store = MemoryStore()
    await initialise_cluster(store, Random(1))
    await store.create(Paths().feature_level, FeatureRecord(KNOWN_LEVELS.newest).encode())
    await instance_id(store)
    above = FeatureRecord(KNOWN_LEVELS.newest + 1).encode()
    await store.put(Paths().feature_level, above)
    with pytest.raises(FeatureLevelError, match="install a newer version"):
        await instance_id(store)


async def test_a_program_starts_from_old_metadata_without_a_level() -> None:
    """Old metadata never shows that something is absent, and most clusters have no level stored."""
    store = MemoryStore()
    await initialise_cluster(store, Random(1))
    asked: list[int] = []

    class OldMetadata(MemoryStore):
        async def get_all(
            self, paths: Sequence[str], *, stale_ok: bool = False
        ) -> list[Value | None]:
            asked.append(len(paths))
            found = await store.get_all(paths)
            if None in found or not stale_ok:
                raise MetadataUnavailableError("the store cannot be reached")
            return found

    assert await instance_id(OldMetadata(), stale_ok=True) == await instance_id(store)
    assert asked == [3, 2]
    with pytest.raises(MetadataUnavailableError):
        await instance_id(OldMetadata())
