"""A cluster at a certain feature level, whose processes all know it."""

from rhumbline.core.metadata.feature_level_store import raise_feature_level
from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS
from rhumbline.core.runtime.metadata_store import MetadataStore


async def raise_level(store: MetadataStore, level: int = KNOWN_LEVELS.newest) -> None:
    """Raise the feature level. Does nothing if the cluster has reached it."""

    async def find_none(_: int) -> list[str]:
        return []

    await raise_feature_level(store, level, find_none)
