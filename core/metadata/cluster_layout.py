"""The layout of a cluster's metadata, and its initialisation. The paths are BookKeeper's.

One root (default ``/ledgers``) holds ``LAYOUT`` (the layout of ledger paths), ``INSTANCEID`` (the
cluster's id), ``available`` and ``available/readonly`` (bookies that are up), ``cookies`` (bookies
that were formatted), ``idgen`` (reserved ledger ids) and the nodes of the ledgers. Nodes that
BookKeeper does not have are below ``rhumbline``.
"""

import re
from dataclasses import dataclass
from random import Random
from uuid import UUID

from ..protocol.bookie_id import BookieId
from ..protocol.errors import MetadataUnavailableError, NodeExistsError, WrongClusterError
from ..runtime.metadata_store import MetadataReads, MetadataStore, Value, check_path
from . import idempotent_writes
from .feature_levels import KNOWN_LEVELS, FeatureRecord, LevelRange

ROOT = "/ledgers"
READ_ONLY_NAME = "readonly"

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
"""BookKeeper's default layout, the only one that is supported."""

SHORT_LEDGER_IDS_END = 2**31 - 1
"""Ledger ids below this have short paths and come from ``idgen``; others have long paths."""

LEDGER_ID_MAX = 2**63 - 1

SHORT_WIDTHS = (2, 4, 4)
LONG_WIDTHS = (3, 4, 4, 4, 4)
"""Digits of a ledger id in each part of its path; an L precedes them in the last part."""

_INSTANCE_ID = re.compile(rb"[0-9A-Za-z\-]{1,64}")


@dataclass(frozen=True, slots=True)
class Paths:
    """All paths of a cluster below its root."""

    root: str = ROOT

    def __post_init__(self) -> None:
        check_path(self.root)
        assert self.root != "/", "a cluster needs its own root"

    @property
    def layout(self) -> str:
        """The layout of ledger paths."""
        return f"{self.root}/LAYOUT"

    @property
    def instance_id(self) -> str:
        """The cluster's id."""
        return f"{self.root}/INSTANCEID"

    @property
    def available(self) -> str:
        """The writable bookies that are up, and ``readonly``."""
        return f"{self.root}/available"

    @property
    def read_only(self) -> str:
        """The read-only bookies that are up."""
        return f"{self.root}/available/{READ_ONLY_NAME}"

    @property
    def cookies(self) -> str:
        """One node for each bookie that was formatted and not removed since."""
        return f"{self.root}/cookies"

    @property
    def ids(self) -> str:
        """The reserved ledger ids with a short path."""
        return f"{self.root}/idgen"

    @property
    def long_ids(self) -> str:
        """The reserved ledger ids with a long path."""
        return f"{self.root}/idgen-long"

    @property
    def regions(self) -> str:
        """The region of each bookie id; never changed or deleted."""
        return f"{self.root}/rhumbline/regions"

    @property
    def declared_regions(self) -> str:
        """In the global store: the regions that the cluster declares."""
        return f"{self.root}/rhumbline/declared-regions"

    @property
    def feature_level(self) -> str:
        """In the global store: the feature level of the cluster."""
        return f"{self.root}/rhumbline/feature-level"

    @property
    def grants(self) -> str:
        """In the global store: the grants of principals."""
        return f"{self.root}/rhumbline/grants"

    @property
    def regional_stores(self) -> str:
        """In the global store: the regional stores of the cluster with their numbers."""
        return f"{self.root}/rhumbline/regional-stores"

    @property
    def own_store(self) -> str:
        """In a regional store: its region and its number."""
        return f"{self.root}/rhumbline/store"

    @property
    def garbage_hold(self) -> str:
        """The hold that keeps garbage after a restore or rebuild."""
        return f"{self.root}/rhumbline/garbage-hold"

    @property
    def places(self) -> str:
        """The records of moved ledgers."""
        return f"{self.root}/rhumbline/moved-ledgers"

    def place(self, ledger_id: int) -> str:
        """Return the path of the record that says in which store a moved ledger is."""
        return f"{self.places}/{'/'.join(ledger_path_parts(ledger_id))}"

    def registration(self, bookie: BookieId, *, read_only: bool = False) -> str:
        """Return the path of a bookie's registration."""
        return f"{self.read_only if read_only else self.available}/{bookie}"

    def cookie(self, bookie: BookieId) -> str:
        """Return the path of a bookie's cookie."""
        return f"{self.cookies}/{bookie}"

    def region(self, bookie: BookieId) -> str:
        """Return the path of a bookie id's region."""
        return f"{self.regions}/{bookie}"

    def start(self, bookie: BookieId) -> str:
        """Return the path of the record of a bookie's starts."""
        return f"{self.root}/rhumbline/starts/{bookie}"

    def ledger(self, ledger_id: int) -> str:
        """Return a ledger's path: ten digits split 2-4-4; from 2^31 - 1 on 19, split 3-4-4-4-4."""
        return f"{self.root}/{'/'.join(ledger_path_parts(ledger_id))}"


def ledger_path_parts(ledger_id: int) -> list[str]:
    """Return the parts of a ledger's path below the root."""
    assert 0 <= ledger_id <= LEDGER_ID_MAX
    widths = SHORT_WIDTHS if ledger_id < SHORT_LEDGER_IDS_END else LONG_WIDTHS
    digits = f"{ledger_id:0{sum(widths)}d}"
    parts = []
    for width in widths:
        parts.append(digits[:width])
        digits = digits[width:]
    parts[-1] = f"L{parts[-1]}"
    return parts


async def initialise_cluster(store: MetadataStore, random: Random, root: str = ROOT) -> str:
    """Create the nodes that bookies and clients need, and return the cluster's instance id.

    Several processes may call this concurrently and repeatedly: existing nodes are not changed, and
    all calls return the same id. The instance id is written last, so a cluster that has one is
    complete. Raises WrongClusterError if the existing cluster has another layout.
    """
    new_id = str(UUID(int=random.getrandbits(128), version=4))
    return await initialise_store(store, new_id, root)


async def initialise_store(store: MetadataStore, new_id: str, root: str = ROOT) -> str:
    """Create the nodes as ``initialise_cluster`` does, with ``new_id`` if there is no id yet."""
    paths = Paths(root)
    for path, data in (
        (paths.root, b""),
        (paths.available, b""),
        (paths.read_only, b""),
        (paths.cookies, b""),
        (paths.regions, b""),
        (paths.layout, LAYOUT),
    ):
        await _ensure(store, path, data)
    layout = await idempotent_writes.read_if_exists(store, paths.layout)
    _check_layout_value(store, paths, layout)
    await _ensure(store, paths.instance_id, new_id.encode())
    return await instance_id(store, root)


async def instance_id(
    store: MetadataReads,
    root: str = ROOT,
    *,
    stale_ok: bool = False,
    known: LevelRange = KNOWN_LEVELS,
) -> str:
    """Return the cluster's id, once this program is known to understand the cluster.

    Every process and command begins with it. Raises WrongClusterError if there is no cluster, or
    one of another layout, and FeatureLevelError if the cluster is above or below the feature levels
    that this program knows (``known``; rule UPG-1). Layout and id never change, and the level
    rarely, so readers may take them from old metadata.
    """
    paths = Paths(root)
    found = [paths.layout, paths.instance_id]
    try:
        layout, value, level = await store.get_all([*found, paths.feature_level], stale_ok=stale_ok)
    except MetadataUnavailableError:
        if not stale_ok:
            raise
        # Old metadata never shows that a cluster has no level. The process checks it when it
        # registers, which it does as soon as the store is in reach.
        layout, value = await store.get_all(found, stale_ok=True)
        level = None
    _check_layout_value(store, paths, layout)
    FeatureRecord.decode(None if level is None else level.data).check_known(known)
    if value is None or not _INSTANCE_ID.fullmatch(value.data):
        raise WrongClusterError(f"{store.uri} has no instance id at {paths.instance_id}")
    return value.data.decode()


def _check_layout_value(store: MetadataReads, paths: Paths, value: Value | None) -> None:
    if value is None:
        raise WrongClusterError(f"{store.uri} has no cluster at {paths.root}")
    found = value.data.rstrip(b"\n")
    if found != LAYOUT:
        raise WrongClusterError(f"{store.uri} has a cluster of another layout: {found[:120]!r}")


async def _ensure(store: MetadataStore, path: str, data: bytes) -> None:
    if await idempotent_writes.read_if_exists(store, path) is not None:
        return
    try:
        await idempotent_writes.create(store, path, data)
    except NodeExistsError:
        return  # another process was faster; callers check the content if it matters
