"""The feature level of a cluster in its global metadata store, and the way to raise it."""

from collections.abc import Awaitable, Callable

from ..protocol.errors import (
    BadVersionError,
    FeatureLevelError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    RefusedError,
)
from ..runtime.metadata_store import MetadataReads, MetadataStore, Version
from . import idempotent_writes
from .cluster_layout import ROOT, Paths
from .feature_levels import KNOWN_LEVELS, FeatureRecord, LevelRange

_ATTEMPTS = 16

FindOlder = Callable[[int], Awaitable[list[str]]]
"""Returns the running processes that are not known to know a level."""


async def read_feature_level(store: MetadataReads, root: str = ROOT) -> FeatureRecord:
    """Return the level of the cluster by a linearizable read.

    Raises MetadataUnavailableError, CorruptionError, ForeignDataError.
    """
    value = await idempotent_writes.read_if_exists(store, Paths(root).feature_level)
    return FeatureRecord.decode(None if value is None else value.data)


async def require_feature_level(store: MetadataReads, level: int, what: str) -> None:
    """Raise FeatureLevelError unless ``what`` may be written at the cluster's level (rule UPG-4).

    The level never falls, so what may be written once may always be. Raises the errors of
    ``read_feature_level``, too.
    """
    found = await read_feature_level(store)
    if found.level < level:
        raise FeatureLevelError(
            f"{what} need feature level {level}, and the cluster is at {found.level}: once every "
            f"process knows it, raise the level with `rhumbline cluster features --raise {level}`"
        )


async def raise_feature_level(
    store: MetadataStore,
    level: int,
    find_older: FindOlder,
    root: str = ROOT,
    *,
    known: LevelRange = KNOWN_LEVELS,
) -> FeatureRecord:
    """Raise the level, if ``find_older`` finds no process that does not know it (rule UPG-2).

    The intention is stored first. A process registers and then reads the level, so each process
    that does not know the new level either sees the intention, or is found. Safe to repeat, and to
    be repeated after a crash. Raises InvalidArgumentError, RefusedError which names the processes,
    and the errors of the store, after which the call may be repeated.
    """
    before = await read_feature_level(store, root)
    if level < before.level:
        raise InvalidArgumentError(
            f"the cluster is at feature level {before.level}, which cannot be lowered to {level}"
        )
    if level > known.newest:
        raise InvalidArgumentError(f"this program knows levels {known}, not {level}")
    if level == before.level:
        return await _change(store, root, lambda found: found._replace(raising=0))
    version = await _intend(store, root, level)
    older = await find_older(level)
    if older:
        await _change(store, root, lambda found: found._replace(raising=0))
        raise RefusedError(
            f"{len(older)} running processes are not known to know feature level {level}: "
            + "; ".join(older)
        )
    reached = FeatureRecord(level)
    try:
        await idempotent_writes.put(store, Paths(root).feature_level, reached.encode(), version)
    except BadVersionError as error:
        raise RefusedError(
            "another command changed the feature level at the same time; repeat this one"
        ) from error
    return reached


async def _intend(store: MetadataStore, root: str, level: int) -> Version:
    """Store the intention, and return the version of the node: it changes if it is withdrawn."""
    path = Paths(root).feature_level
    for _ in range(_ATTEMPTS):
        await _change(store, root, lambda found: found._replace(raising=level))
        value = await store.get(path)
        if FeatureRecord.decode(value.data).raising == level:
            return value.version
    raise MetadataUnavailableError(f"{path} changed during {_ATTEMPTS} attempts")


async def _change(
    store: MetadataStore, root: str, change: Callable[[FeatureRecord], FeatureRecord]
) -> FeatureRecord:
    path = Paths(root).feature_level
    for _ in range(_ATTEMPTS):
        value = await idempotent_writes.read_if_exists(store, path)
        before = FeatureRecord.decode(None if value is None else value.data)
        after = change(before)
        if after == before:
            return before
        try:
            if value is None:
                await idempotent_writes.create(store, path, after.encode())
            else:
                await idempotent_writes.put(store, path, after.encode(), value.version)
        except (BadVersionError, NodeExistsError):
            continue
        return after
    raise MetadataUnavailableError(f"{path} changed during {_ATTEMPTS} attempts")
