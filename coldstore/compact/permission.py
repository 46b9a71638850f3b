"""The feature level from which on archives may have relocations (rule UPG-4)."""

from collections.abc import Iterable

from ...core.metadata.feature_level_store import require_feature_level
from ...core.metadata.feature_levels import RELOCATIONS_LEVEL
from ...core.runtime.metadata_store import MetadataReads
from ..archive.manifest import Manifest


async def require_relocations(store: MetadataReads, what: str) -> None:
    """Raise FeatureLevelError unless all programs of the cluster know relocations.

    Raises the errors of ``read_feature_level``, too.
    """
    await require_feature_level(store, RELOCATIONS_LEVEL, what)


def has_moved(manifests: Iterable[Manifest]) -> bool:
    """True if programs that do not know relocations cannot read some of these segments."""
    return any(one.erased or any(part.group_count for part in one.parts) for one in manifests)
