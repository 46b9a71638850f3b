"""From one store to another while the cluster runs: copy, follow, cut over behind a fence, verify.

1. Take the target: close its gate, marked as partial. Whoever opens it is sent to the source. A
   target that holds anything but an earlier copy of the same tree is refused and left as it was.
2. Copy, in passes over the whole source, until a pass finds little that has changed.
3. Close the source's gate. From here on the metadata of the cluster stands still (its data path
   goes on), for ``longest_pause_ms`` at most; if that is too short, the source opens again.
4. The last pass, then compare every node, and the numbers that sequential children will get.
5. Open the target's gate with a new epoch: the one step that decides. Handles follow by themselves.

Each step is a compare-and-set of a gate, and every write into the target names the gate that this
attempt set. So an attempt may be killed anywhere and run again, by anybody: it takes over, and what
is left of the old one cannot write or decide any more. The way back is a migration as any other.
Ephemeral nodes stay behind: sessions end with the store, and their owners make them anew.
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

LONGEST_PAUSE_MS = 10_000
PASSES_MAX = 8
FEW_CHANGES = 64
"""A pass that finds no more is the last one before the cut."""

_BATCH_OPERATIONS = 32
_BATCH_BYTES = 256 * 1024
_ATTEMPTS = 5
_PAUSE_S = 0.05
_SHORT_LEDGER = re.compile(rf"{ROOT}/([0-9]{{2}})/([0-9]{{4}})/L([0-9]{{4}})")
_SURPRISES = (BadVersionError, IndeterminateError, NodeExistsError, NoNodeError, NotEmptyError)


class MigrationError(MetadataError):
    """A migration cannot go on. The message says which store is in use."""

    code = "migration"


class MigrationProgress(NamedTuple):
    """Where a migration is: ``step`` in words, nodes seen, nodes that this pass changed."""

    step: str
    nodes: int = 0
    changes: int = 0


class MigrationOutcome(NamedTuple):
    """What a migration did. ``pause_ms``: how long no store could be written."""

    nodes: int
    passes: int
    pause_ms: int
    next_ledger_id: int
    was_done: bool = False


class Copy(NamedTuple):
    """A persistent node as it is copied; ``data`` None: it is ephemeral, and only in the way."""

    data: bytes | None
    sequence: int


@dataclass(frozen=True, slots=True)
class End:
    """One end of a migration. ``uri``: what others shall open, also from other hosts."""

    store: MovableStore
    uri: str


class Migration:
    """One attempt to move what ``source`` holds to ``target``."""

    def __init__(
        self,
        source: End,
        target: End,
        *,
        longest_pause_ms: int = LONGEST_PAUSE_MS,
        new_token: Callable[[], str] = lambda: os.urandom(8).hex(),
        on_progress: Callable[[MigrationProgress], None] = lambda _: None,
    ) -> None:
        self._source = source
        self._target = target
        self._longest_pause_ms = longest_pause_ms
        self._new_token = new_token
        self._on_progress = on_progress
        self._mover = new_token()
        self._gate = FenceState("", "")
        self._known: dict[str, Copy] | None = None
        self._seen: dict[str, Copy] = {}
        self._passes = 0

    async def run(self) -> MigrationOutcome:
        """Moves; returns at once when that was done before. Safe to repeat after any failure.

        Raises MigrationError, ForeignDataError (the target holds something else),
        MetadataUnavailableError. Unless the message says otherwise, the source is in use as before.
        """
        source, target = await self._states()
        if source.tree == target.tree and source.successor and not target.successor:
            nodes = await scan(self._target.store)
            return MigrationOutcome(len(nodes), 0, 0, next_ledger_id(nodes), was_done=True)
        await self._take(source, target)
        if source.successor is None:
            await self._copy()
        return await self._cut_over(source)

    async def abort(self) -> None:
        """Gives a migration up that has not been decided: the source is in use again.

        Safe to repeat. Raises MigrationError when the target is in use already.
        """
        source, target = await self._states()
        if source.successor is None:
            return
        if not target.is_partial or target.tree != source.tree:
            raise MigrationError(f"{self._target.uri} is in use: migrate back instead")
        taken = replace(target, mover=self._mover)
        await set_gate(self._target.store, target, taken)
        await set_gate(self._source.store, source, opened(source))

    # --- the steps

    async def _states(self) -> tuple[FenceState, FenceState]:
        """Both gates, if one may move to the other."""
        source = await self._source.store.gate_state()
        target = await self._target.store.gate_state()
        if source.epoch == target.epoch:
            raise MigrationError("both URIs lead to the same store")
        if source.is_partial and target.successor:
            raise MigrationError(
                f"{self._source.uri} is an incomplete copy of {source.successor}: "
                "finish that migration or abort it"
            )
        if source.successor not in (None, self._target.uri):
            raise MigrationError(f"{self._source.uri} was replaced by {source.successor}")
        if target.tree != source.tree and target.successor and not target.is_partial:
            raise ForeignDataError(f"{self._target.uri} belongs to {target.successor}")
        if source.tree == target.tree and not source.successor and not target.successor:
            raise MigrationError("both stores are in use and hold copies of one tree")
        return source, target

    async def _take(self, source: FenceState, target: FenceState) -> None:
        """The target is closed, empty or a copy of this source, and written by this attempt only.

        Only after the look at what it holds does it get the source's tree: so whoever finds it half
        taken looks again, and never deletes what belongs to somebody else.
        """
        self._on_progress(MigrationProgress("taking the target"))
        taken = replace(target, successor=self._source.uri, mover=self._mover, is_partial=True)
        await set_gate(self._target.store, target, taken)
        if target.tree != source.tree:
            self._known = await scan(self._target.store)
            if len(self._known) > 1:
                await set_gate(self._target.store, taken, opened(taken))
                raise ForeignDataError(f"{self._target.uri} is not empty")
            adopted = replace(taken, tree=source.tree)
            await set_gate(self._target.store, taken, adopted)
            taken = adopted
        self._gate = taken

    async def _copy(self) -> None:
        """Passes, until one finds little to do."""
        for _ in range(PASSES_MAX):
            if await self._pass("copying") <= FEW_CHANGES:
                return

    async def _cut_over(self, source: FenceState) -> MigrationOutcome:
        loop = asyncio.get_running_loop()
        closed = replace(source, successor=self._target.uri, mover=self._mover)
        final = FenceState(f"g{self._new_token()}", self._gate.tree)
        began = loop.time()
        try:
            async with asyncio.timeout(self._longest_pause_ms / 1000):
                await set_gate(self._source.store, source, closed)
                nodes = await self._last_pass()
                await set_gate(self._target.store, self._gate, final)
        except (Exception, asyncio.CancelledError) as error:
            is_undone = await self._undo(closed, source, final)
            if is_undone or isinstance(error, asyncio.CancelledError):
                raise self._failure(error) from error
            nodes = await scan(self._target.store)
        pause_ms = int((loop.time() - began) * 1000)
        self._on_progress(MigrationProgress("done", len(nodes)))
        return MigrationOutcome(len(nodes), self._passes, pause_ms, next_ledger_id(nodes))

    async def _undo(self, closed: FenceState, source: FenceState, final: FenceState) -> bool:
        """After a failure behind the fence: opens the source again. False: the target is open.

        Both gates change in any case, first the target's, so that nothing of what this attempt
        asked for, and did not hear about, can happen later.
        """
        self._on_progress(MigrationProgress("opening the source again"))
        try:
            ours = replace(self._gate, mover=self._new_token())
            try:
                await set_gate(self._target.store, self._gate, ours)
            except MigrationError:
                if await self._target.store.gate_state() == final:
                    return False
                raise
            now = await self._source.store.gate_state()
            if now not in (source, closed):
                raise MigrationError(f"{self._source.uri}: another attempt has taken over")
            again = replace(opened(source), mover=self._new_token())
            await set_gate(self._source.store, now, again)
        except MigrationError:
            raise
        except MetadataError as error:
            raise MigrationError(
                f"neither {self._source.uri} nor {self._target.uri} can be written: run the same "
                f"migration again, or with --abort ({error})"
            ) from error
        return True

    def _failure(self, error: BaseException) -> BaseException:
        if isinstance(error, TimeoutError):
            return MigrationError(
                f"the last pass took longer than {self._longest_pause_ms} ms; "
                f"{self._source.uri} is in use again"
            )
        return error

    # --- passes

    async def _last_pass(self) -> dict[str, Copy]:
        """With the source closed: makes the target equal, and reads that again to prove it."""
        await self._pass("last pass")
        source = self._seen
        target = await scan(self._target.store)
        self._on_progress(MigrationProgress("comparing", len(target)))
        check_equal(source, target)
        return target

    async def _pass(self, step: str) -> int:
        """Makes the target what the source is now; how many nodes that took."""
        self._passes += 1
        for _ in range(_ATTEMPTS):
            source = persistent(await scan(self._source.store))
            _floor_ledger_ids(source)
            self._seen = source
            if self._known is None:
                self._known = await scan(self._target.store)
            try:
                return await self._apply(source, self._known, step)
            except _SURPRISES:
                self._known = None  # look at what is there, and at what is wanted, again
        raise MigrationError(f"{self._target.uri} is changed by somebody else all the time")

    async def _apply(self, source: Mapping[str, Copy], known: dict[str, Copy], step: str) -> int:
        changes = differences(source, known)
        done = 0
        for batch in batches(changes):
            self._on_progress(MigrationProgress(step, len(source), done))
            await self._load(batch, {})
            done += len(batch)
            for operation in batch:
                if isinstance(operation, Delete):
                    del known[operation.path]
                else:
                    data, _ = source[operation.path]
                    before = known.get(operation.path, Copy(b"", 0))
                    known[operation.path] = before._replace(data=data)
        numbers = [(path, c.sequence) for path, c in source.items() if c.sequence > known[path][1]]
        for start in range(0, len(numbers), _BATCH_OPERATIONS):
            some = dict(numbers[start : start + _BATCH_OPERATIONS])
            await self._load([], some)
            for path, number in some.items():
                known[path] = known[path]._replace(sequence=number)
        self._on_progress(MigrationProgress(step, len(source), len(changes)))
        return len(changes)

    async def _load(self, operations: Sequence[Operation], numbers: Mapping[str, int]) -> None:
        await self._target.store.load(operations, numbers, self._gate)


def opened(gate: FenceState) -> FenceState:
    """The gate, open, in the same life of its store."""
    return FenceState(gate.epoch, gate.tree)


async def set_gate(store: MovableStore, old: FenceState, new: FenceState) -> None:
    """Replaces a gate for certain. Raises MigrationError when it is neither ``old`` nor ``new``,
    MetadataUnavailableError when that cannot be found out."""
    if old == new:
        return
    for _ in range(_ATTEMPTS):
        try:
            if await store.swap_gate(old, new):
                return
            now = await store.gate_state()
        except (IndeterminateError, MetadataUnavailableError):
            await asyncio.sleep(_PAUSE_S)
            continue
        if now == new:
            return
        if now != old:
            raise MigrationError(f"{store.uri}: another attempt has taken over")
    raise MetadataUnavailableError(f"{store.uri}: cannot find out how its gate is")


async def scan(store: MovableStore) -> dict[str, Copy]:
    """Every node of a store."""
    found: dict[str, Copy] = {}
    async for page in store.scan():
        for path, node in page:
            found[path] = Copy(node.data if node.owner is None else None, node.sequence)
    return found


def persistent(nodes: Mapping[str, Copy]) -> dict[str, Copy]:
    """Without the ephemeral ones."""
    return {path: copy for path, copy in nodes.items() if copy.data is not None}


def differences(source: Mapping[str, Copy], target: Mapping[str, Copy]) -> list[Operation]:
    """What makes the target's nodes those of the source: children go before their parents, and
    come after them."""
    gone = [path for path, copy in target.items() if path not in source or copy.data is None]
    changes: list[Operation] = [Delete(path) for path in sorted(gone, key=_depth, reverse=True)]
    for path in sorted(source, key=_depth):
        data = source[path].data
        assert data is not None, "ephemeral nodes are not copied"
        there = target.get(path)
        if there is None or there.data is None:
            changes.append(Create(path, data))
        elif there.data != data:
            changes.append(Put(path, data))
    return changes


def batches(changes: Sequence[Operation]) -> list[list[Operation]]:
    """Transactions of bounded size. No path is in one of them twice."""
    made: list[list[Operation]] = [[]]
    size = 0
    paths: set[str] = set()
    for change in changes:
        weight = len(change.path) + (0 if isinstance(change, Delete) else len(_data_of(change)))
        is_full = len(made[-1]) >= _BATCH_OPERATIONS or size + weight > _BATCH_BYTES
        if made[-1] and (is_full or change.path in paths):
            made.append([])
            size = 0
            paths.clear()
        made[-1].append(change)
        paths.add(change.path)
        size += weight
    return [batch for batch in made if batch]


def check_equal(source: Mapping[str, Copy], target: Mapping[str, Copy]) -> None:
    """Raises MigrationError unless the target is what the source is, and counts on from it."""
    wanted = persistent(source)
    _floor_ledger_ids(wanted)
    for path in wanted.keys() | target.keys():
        if path not in wanted or path not in target or wanted[path].data != target[path].data:
            raise MigrationError(f"the copy differs at {path}")
        if target[path].sequence < wanted[path].sequence:
            raise MigrationError(f"the copy would give numbers below {path} a second time")
    if next_ledger_id(target) <= highest_ledger_id(target):
        raise MigrationError("the copy would give ledger ids a second time")


def next_ledger_id(nodes: Mapping[str, Copy]) -> int:
    """The least number that a new ledger can get."""
    return nodes.get(Paths().ids, Copy(b"", 0)).sequence


def highest_ledger_id(nodes: Mapping[str, Copy]) -> int:
    """The highest id of a ledger with a short path; -1: there is none."""
    found = (_SHORT_LEDGER.fullmatch(path) for path in nodes)
    return max((int("".join(match.groups())) for match in found if match), default=-1)


def _floor_ledger_ids(nodes: dict[str, Copy]) -> None:
    """Numbers begin behind the ledgers that are there, also where a restore set them back."""
    highest = highest_ledger_id(nodes)
    if next_ledger_id(nodes) <= highest:
        nodes[Paths().ids] = nodes.get(Paths().ids, Copy(b"", 0))._replace(sequence=highest + 1)


def _data_of(change: Operation) -> bytes:
    assert isinstance(change, Create | Put)
    return change.data


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path
