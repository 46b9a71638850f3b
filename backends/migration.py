"""Live migration of the metadata from one store to another.

1. Claim the target: close its fence and mark it as partial. Processes that open the target are
   redirected to the source. A target that holds anything but an earlier copy of the same tree is
   refused and left unchanged.
2. Copy the whole source in passes, until a pass finds few changes.
3. Close the source's fence. Metadata cannot be written from now on, for at most ``pause_ms_max``
   (appends and reads of open streams continue). After a timeout the source is opened again.
4. Run the last pass, then compare every node and the numbers of the next sequential children.
5. Open the target's fence with a new epoch. This single write commits the migration; open handles
   switch to the target by themselves.

Each step is a compare-and-set of a fence, and every write to the target is conditional on the fence
that this attempt has set. An attempt may therefore be killed at any point and repeated by any
process: the new attempt takes over, and the old one can neither write nor commit any more. To go
back, migrate in the other direction. Ephemeral nodes are not copied: sessions end with their store,
and their owners create the nodes again.
"""

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..core.metadata.cluster_layout import ROOT, Paths
from ..core.protocol.errors import (
    BadVersionError,
    ForeignDataError,
    IndeterminateError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ..core.runtime.metadata_store import Create, Delete, Operation, Put
from .migration_fence import FenceState, MovableStore

PAUSE_MS_MAX = 10_000
PASSES_MAX = 8
LAST_PASS_CHANGES_MAX = 64
"""A pass that finds at most this many changes is the last one before the source is closed."""

_BATCH_OPERATIONS = 32
_BATCH_BYTES = 256 * 1024
_ATTEMPTS = 5
_PAUSE_S = 0.05
_SHORT_LEDGER = re.compile(rf"{ROOT}/([0-9]{{2}})/([0-9]{{4}})/L([0-9]{{4}})")
_CONFLICTS = (BadVersionError, IndeterminateError, NodeExistsError, NoNodeError, NotEmptyError)


class MigrationError(MetadataError):
    """A migration cannot continue. The message names the store in use."""

    code = "migration"


class MigrationProgress(NamedTuple):
    """The progress of a migration: name of the step, nodes in the source, nodes changed so far."""

    step: str
    nodes: int = 0
    changes: int = 0


class MigrationOutcome(NamedTuple):
    """The result of a migration.

    ``pause_ms`` is the time during which no store could be written. ``was_already_done`` is True if
    an earlier attempt had completed the migration.
    """

    nodes: int
    passes: int
    pause_ms: int
    next_ledger_id: int
    was_already_done: bool = False


class NodeCopy(NamedTuple):
    """The copied part of a node; ``data`` is None for an ephemeral node, which is not copied."""

    data: bytes | None
    sequence: int


@dataclass(frozen=True, slots=True)
class MigrationEnd:
    """One end of a migration; ``uri`` must be valid on every host of the cluster."""

    store: MovableStore
    uri: str


class Migration:
    """One attempt to move the content of ``source`` to ``target``."""

    def __init__(
        self,
        source: MigrationEnd,
        target: MigrationEnd,
        *,
        pause_ms_max: int = PAUSE_MS_MAX,
        new_token: Callable[[], str] = lambda: os.urandom(8).hex(),
        on_progress: Callable[[MigrationProgress], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._pause_ms_max = pause_ms_max
        self._new_token = new_token
        self._on_progress = on_progress
        self._mover = new_token()
        self._fence = FenceState("", "")
        self._target_nodes: dict[str, NodeCopy] | None = None
        self._source_nodes: dict[str, NodeCopy] = {}
        self._passes = 0

    async def run(self) -> MigrationOutcome:
        """Migrate, or return if the migration was completed. Safe to repeat after any failure.

        Raises MigrationError, ForeignDataError (the target holds other data) and
        MetadataUnavailableError. The source stays in use unless the message says otherwise.
        """
        source, target = await self._states()
        if source.tree == target.tree and source.successor and not target.successor:
            nodes = await scan(self._target.store)
            return MigrationOutcome(len(nodes), 0, 0, next_ledger_id(nodes), was_already_done=True)
        await self._claim_target(source, target)
        if source.successor is None:
            await self._copy()
        return await self._cut_over(source)

    async def abort(self) -> None:
        """Abort a migration that is not committed: the source is in use again.

        Safe to repeat. Raises MigrationError if the target is in use already.
        """
        source, target = await self._states()
        if source.successor is None:
            return
        if not target.is_partial or target.tree != source.tree:
            raise MigrationError(
                f"{self._target.uri} is in use already: migrate in the other direction instead"
            )
        claimed = replace(target, mover=self._mover)
        await set_fence(self._target.store, target, claimed)
        await set_fence(self._source.store, source, opened(source))

    # --- the steps

    async def _states(self) -> tuple[FenceState, FenceState]:
        """Return both fences. Raises if the source cannot be migrated to the target."""
        source = await self._source.store.fence_state()
        target = await self._target.store.fence_state()
        if source.epoch == target.epoch:
            raise MigrationError("both URIs name the same store")
        if source.is_partial and target.successor:
            raise MigrationError(
                f"{self._source.uri} is an incomplete copy of {source.successor}: "
                "complete or abort that migration first"
            )
        if source.successor not in (None, self._target.uri):
            raise MigrationError(f"{self._source.uri} was replaced by {source.successor}")
        if target.tree != source.tree and target.successor and not target.is_partial:
            raise ForeignDataError(
                f"{self._target.uri} was replaced by {target.successor} and holds its old metadata"
            )
        if source.tree == target.tree and not source.successor and not target.successor:
            raise MigrationError(
                "both stores are in use and hold copies of the same metadata: cannot tell which "
                "one is current"
            )
        return source, target

    async def _claim_target(self, source: FenceState, target: FenceState) -> None:
        """Close the target for all but this attempt, and check that it is empty or an older copy.

        The target gets the source's tree id only after its content was checked. An attempt that
        finds a target without that id therefore checks again, and never deletes foreign data.
        """
        self._on_progress(MigrationProgress("claiming the target"))
        claimed = replace(target, successor=self._source.uri, mover=self._mover, is_partial=True)
        await set_fence(self._target.store, target, claimed)
        if target.tree != source.tree:
            self._target_nodes = await scan(self._target.store)
            if len(self._target_nodes) > 1:
                await set_fence(self._target.store, claimed, opened(claimed))
                raise ForeignDataError(
                    f"{self._target.uri} is not empty: it holds {len(self._target_nodes) - 1} nodes"
                )
            adopted = replace(claimed, tree=source.tree)
            await set_fence(self._target.store, claimed, adopted)
            claimed = adopted
        self._fence = claimed

    async def _copy(self) -> None:
        """Run passes until one finds few changes."""
        for _ in range(PASSES_MAX):
            if await self._pass("copying") <= LAST_PASS_CHANGES_MAX:
                return

    async def _cut_over(self, source: FenceState) -> MigrationOutcome:
        loop = asyncio.get_running_loop()
        closed = replace(source, successor=self._target.uri, mover=self._mover)
        final = FenceState(f"g{self._new_token()}", self._fence.tree)
        began = loop.time()
        try:
            async with asyncio.timeout(self._pause_ms_max / 1000):
                await set_fence(self._source.store, source, closed)
                nodes = await self._last_pass()
                await set_fence(self._target.store, self._fence, final)
        except (Exception, asyncio.CancelledError) as error:
            is_undone = await self._undo(closed, source, final)
            if is_undone or isinstance(error, asyncio.CancelledError):
                raise self._failure(error) from error
            nodes = await scan(self._target.store)
        pause_ms = int((loop.time() - began) * 1000)
        self._on_progress(MigrationProgress("done", len(nodes)))
        return MigrationOutcome(len(nodes), self._passes, pause_ms, next_ledger_id(nodes))

    async def _undo(self, closed: FenceState, source: FenceState, final: FenceState) -> bool:
        """Open the source again after a failure; False if the target was opened after all.

        Both fences are changed in any case, the target's first. Requests of this attempt whose
        outcome is unknown therefore cannot take effect later.
        """
        self._on_progress(MigrationProgress("reopening the source"))
        try:
            reclaimed = replace(self._fence, mover=self._new_token())
            try:
                await set_fence(self._target.store, self._fence, reclaimed)
            except MigrationError:
                if await self._target.store.fence_state() == final:
                    return False
                raise
            current = await self._source.store.fence_state()
            if current not in (source, closed):
                raise MigrationError(
                    f"{self._source.uri}: another migration attempt has taken over"
                )
            reopened = replace(opened(source), mover=self._new_token())
            await set_fence(self._source.store, current, reopened)
        except MigrationError:
            raise
        except MetadataError as error:
            raise MigrationError(
                f"neither {self._source.uri} nor {self._target.uri} can be written: repeat the "
                f"migration, or run it with --abort ({error})"
            ) from error
        return True

    def _failure(self, error: BaseException) -> BaseException:
        if isinstance(error, TimeoutError):
            return MigrationError(
                f"the switch took longer than {self._pause_ms_max} ms; "
                f"{self._source.uri} is in use again"
            )
        return error

    # --- passes

    async def _last_pass(self) -> dict[str, NodeCopy]:
        """Make the target equal to the closed source, then read the target again and compare."""
        await self._pass("last pass")
        source = self._source_nodes
        target = await scan(self._target.store)
        self._on_progress(MigrationProgress("comparing", len(target)))
        check_equal(source, target)
        return target

    async def _pass(self, step: str) -> int:
        """Make the target equal to the current source; return the number of changed nodes."""
        self._passes += 1
        for _ in range(_ATTEMPTS):
            source = persistent(await scan(self._source.store))
            floor_ledger_ids(source)
            self._source_nodes = source
            if self._target_nodes is None:
                self._target_nodes = await scan(self._target.store)
            try:
                return await self._apply(source, self._target_nodes, step)
            except _CONFLICTS:
                self._target_nodes = None  # read both stores again
        raise MigrationError(
            f"{self._target.uri} was changed by another process during {_ATTEMPTS} attempts"
        )

    async def _apply(
        self, source: Mapping[str, NodeCopy], target_nodes: dict[str, NodeCopy], step: str
    ) -> int:
        changes = differences(source, target_nodes)
        done = 0
        for batch in batches(changes):
            self._on_progress(MigrationProgress(step, len(source), done))
            await self._load(batch, {})
            done += len(batch)
            for operation in batch:
                if isinstance(operation, Delete):
                    del target_nodes[operation.path]
                else:
                    data, _ = source[operation.path]
                    before = target_nodes.get(operation.path, NodeCopy(b"", 0))
                    target_nodes[operation.path] = before._replace(data=data)
        sequences = [
            (path, c.sequence) for path, c in source.items() if c.sequence > target_nodes[path][1]
        ]
        for start in range(0, len(sequences), _BATCH_OPERATIONS):
            raised = dict(sequences[start : start + _BATCH_OPERATIONS])
            await self._load([], raised)
            for path, number in raised.items():
                target_nodes[path] = target_nodes[path]._replace(sequence=number)
        self._on_progress(MigrationProgress(step, len(source), len(changes)))
        return len(changes)

    async def _load(self, operations: Sequence[Operation], sequences: Mapping[str, int]) -> None:
        await self._target.store.load(operations, sequences, self._fence)


def opened(fence: FenceState) -> FenceState:
    """Return the fence in the open state, with the same epoch and tree."""
    return FenceState(fence.epoch, fence.tree)


async def set_fence(store: MovableStore, old: FenceState, new: FenceState) -> None:
    """Replace a fence, also if the outcome of a request is unknown.

    Raises MigrationError if the fence is neither ``old`` nor ``new``, MetadataUnavailableError if
    its state cannot be determined.
    """
    if old == new:
        return
    for _ in range(_ATTEMPTS):
        try:
            if await store.swap_fence(old, new):
                return
            current = await store.fence_state()
        except (IndeterminateError, MetadataUnavailableError):
            await asyncio.sleep(_PAUSE_S)
            continue
        if current == new:
            return
        if current != old:
            raise MigrationError(f"{store.uri}: another migration attempt has taken over")
    raise MetadataUnavailableError(f"{store.uri}: the state of its fence cannot be determined")


async def scan(store: MovableStore) -> dict[str, NodeCopy]:
    """Return every node of a store, by path."""
    found: dict[str, NodeCopy] = {}
    async for page in store.scan():
        for path, node in page:
            found[path] = NodeCopy(node.data if node.owner is None else None, node.sequence)
    return found


def persistent(nodes: Mapping[str, NodeCopy]) -> dict[str, NodeCopy]:
    """Return the nodes that are not ephemeral."""
    return {path: copy for path, copy in nodes.items() if copy.data is not None}


def differences(source: Mapping[str, NodeCopy], target: Mapping[str, NodeCopy]) -> list[Operation]:
    """Return the operations that make the target's nodes equal to the source's.

    Children are deleted before their parents and created after them.
    """
    deleted = [path for path, copy in target.items() if path not in source or copy.data is None]
    changes: list[Operation] = [Delete(path) for path in sorted(deleted, key=_depth, reverse=True)]
    for path in sorted(source, key=_depth):
        data = source[path].data
        assert data is not None, "ephemeral nodes are not copied"
        existing = target.get(path)
        if existing is None or existing.data is None:
            changes.append(Create(path, data))
        elif existing.data != data:
            changes.append(Put(path, data))
    return changes


def batches(changes: Sequence[Operation]) -> list[list[Operation]]:
    """Split changes into transactions of bounded size, each with distinct paths."""
    result: list[list[Operation]] = [[]]
    size = 0
    paths: set[str] = set()
    for change in changes:
        weight = len(change.path) + (0 if isinstance(change, Delete) else len(_data_of(change)))
        is_full = len(result[-1]) >= _BATCH_OPERATIONS or size + weight > _BATCH_BYTES
        if result[-1] and (is_full or change.path in paths):
            result.append([])
            size = 0
            paths.clear()
        result[-1].append(change)
        paths.add(change.path)
        size += weight
    return [batch for batch in result if batch]


def check_equal(source: Mapping[str, NodeCopy], target: Mapping[str, NodeCopy]) -> None:
    """Raise MigrationError unless the target equals the source and continues its numbering."""
    expected = persistent(source)
    floor_ledger_ids(expected)
    for path in expected.keys() | target.keys():
        if path not in expected or path not in target or expected[path].data != target[path].data:
            raise MigrationError(f"the copy differs from the source at {path}")
        if target[path].sequence < expected[path].sequence:
            raise MigrationError(f"the copy would reuse sequence numbers below {path}")
    if next_ledger_id(target) <= highest_ledger_id(target):
        raise MigrationError("the copy would reuse ledger ids")


def next_ledger_id(nodes: Mapping[str, NodeCopy]) -> int:
    """Return the lowest id that a new ledger can get."""
    return nodes.get(Paths().ids, NodeCopy(b"", 0)).sequence


def highest_ledger_id(nodes: Mapping[str, NodeCopy]) -> int:
    """Return the highest id of a ledger with a path of 10 digits; -1 if there is none."""
    found = (_SHORT_LEDGER.fullmatch(path) for path in nodes)
    return max((int("".join(match.groups())) for match in found if match), default=-1)


def floor_ledger_ids(nodes: dict[str, NodeCopy]) -> None:
    """Raise the next ledger id above the existing ledgers, in case a restore had lowered it."""
    highest = highest_ledger_id(nodes)
    if next_ledger_id(nodes) <= highest:
        nodes[Paths().ids] = nodes.get(Paths().ids, NodeCopy(b"", 0))._replace(sequence=highest + 1)


def _data_of(change: Operation) -> bytes:
    assert isinstance(change, Create | Put)
    return change.data


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path
