"""Where a cluster keeps what, and how a cluster begins. The paths are BookKeeper's.

Under one root (default ``/ledgers``): ``LAYOUT`` (which arrangement of ledgers), ``INSTANCEID``
(which cluster), ``available`` and ``available/readonly`` (bookies that are up), ``cookies``
(bookies that were ever formatted), ``idgen`` (numbers for ledgers), and the ledgers' own nodes.
What BookKeeper does not know is under ``rhumbline``.
"""

import re
from dataclasses import dataclass
from random import Random
from uuid import UUID

from ..protocol.bookie_id import BookieId
from ..protocol.errors import NodeExistsError, NoNodeError, WrongClusterError
from ..runtime.metadata_store import MetadataStore, check_path
from . import idempotent_writes

ROOT = "/ledgers"
READ_ONLY_NAME = "readonly"

LAYOUT = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
"""BookKeeper's default arrangement, the only one that we write and read."""

SHORT_LEDGER_IDS_END = 2**31 - 1
"""Ledger ids below have the short path and come from ``idgen``; the others have the long path."""

LEDGER_ID_MAX = 2**63 - 1

SHORT_WIDTHS = (2, 4, 4)
LONG_WIDTHS = (3, 4, 4, 4, 4)
"""Digits of a ledger id in each part of its path; the last part has an L before them."""

_INSTANCE_ID = re.compile(rb"[0-9A-Za-z\-]{1,64}")


@dataclass(frozen=True, slots=True)
class Paths:
    """All paths of a cluster under its root."""

    root: str = ROOT

    def __post_init__(self) -> None:
        check_path(self.root)
        assert self.root != "/", "a cluster needs a root of its own"

    @property
    def layout(self) -> str:
        """Which arrangement of ledgers is in use."""
        return f"{self.root}/LAYOUT"

    @property
    def instance_id(self) -> str:
        """Which cluster this is."""
        return f"{self.root}/INSTANCEID"

    @property
    def available(self) -> str:
        """Writable bookies that are up, and ``readonly``."""
        return f"{self.root}/available"

    @property
    def read_only(self) -> str:
        """Read-only bookies that are up."""
        return f"{self.root}/available/{READ_ONLY_NAME}"

    @property
    def cookies(self) -> str:
        """One node for each bookie that was formatted and not removed since."""
        return f"{self.root}/cookies"

    @property
    def ids(self) -> str:
        """Numbers for ledgers with a short path."""
        return f"{self.root}/idgen"

    @property
    def long_ids(self) -> str:
        """Numbers for ledgers with a long path."""
        return f"{self.root}/idgen-long"

    @property
    def regions(self) -> str:
        """The region of each bookie id, for ever."""
        return f"{self.root}/rhumbline/regions"

    def registration(self, bookie: BookieId, *, read_only: bool = False) -> str:
        """Where a bookie that is up says so."""
        return f"{self.read_only if read_only else self.available}/{bookie}"

    def cookie(self, bookie: BookieId) -> str:
        """A bookie's cookie."""
        return f"{self.cookies}/{bookie}"

    def region(self, bookie: BookieId) -> str:
        """The region of a bookie id."""
        return f"{self.regions}/{bookie}"

    def ledger(self, ledger_id: int) -> str:
        """A ledger's metadata: ten digits cut 2-4-4, or from 2^31 - 1 on nineteen cut 3-4-4-4-4."""
        return f"{self.root}/{'/'.join(ledger_path_parts(ledger_id))}"


def ledger_path_parts(ledger_id: int) -> list[str]:
    """The parts of a ledger's path below the root."""
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
    """Makes the nodes that bookies and clients need, and returns the cluster's instance id.

    Any number of processes may do this at once, and again: whoever finds a node leaves it as it is,
    and all return the same id. The instance id comes last, so a cluster that has one is complete.
    Raises WrongClusterError when the ledgers there are arranged in another way.
    """
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
    await _check_layout(store, paths)
    mine = str(UUID(int=random.getrandbits(128), version=4))
    await _ensure(store, paths.instance_id, mine.encode())
    return await instance_id(store, root)


async def instance_id(store: MetadataStore, root: str = ROOT) -> str:
    """Which cluster this is. Raises WrongClusterError when there is none, or of another layout."""
    paths = Paths(root)
    await _check_layout(store, paths)
    value = await idempotent_writes.look(store, paths.instance_id)
    if value is None or not _INSTANCE_ID.fullmatch(value.data):
        raise WrongClusterError(f"{store.uri} has no instance id at {paths.instance_id}")
    return value.data.decode()


async def _check_layout(store: MetadataStore, paths: Paths) -> None:
    try:
        found = (await store.get(paths.layout)).data.rstrip(b"\n")
    except NoNodeError as error:
        raise WrongClusterError(f"{store.uri} has no cluster at {paths.root}") from error
    if found != LAYOUT:
        raise WrongClusterError(f"{store.uri} has a cluster of another layout: {found[:120]!r}")


async def _ensure(store: MetadataStore, path: str, data: bytes) -> None:
    if await idempotent_writes.look(store, path) is not None:
        return
    try:
        await idempotent_writes.create(store, path, data)
    except NodeExistsError:
        return  # another process was faster; what it wrote is checked by whoever depends on it
