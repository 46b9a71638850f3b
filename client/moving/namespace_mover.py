"""Moves a namespace between the global metadata store and a regional one (rule STR-34).

1. Claim both stores: the record of the namespace in each names this attempt. From here on nothing
   can be created in the namespace.
2. Close each stream in the source, take it from its writer and complete its segments.
3. Copy the nodes of the streams, then freeze and copy the metadata of their ledgers.
4. Compare everything.
5. Commit: one compare-and-set in the global store, which has all names.
6. Open the namespace and its streams in the target.
7. Hand the ledgers over: the source keeps a record of where each one is (rule LED-28).
8. Remove the namespace from the source.

Each step may be repeated, and finds what an earlier attempt has done. Every change is conditional
on the record that names the attempt, so an attempt that was overtaken changes nothing. Before the
commit it may be rolled back: the copies are deleted, then the source is opened again. After the
commit the move only goes forward. At no moment can a stream be written in both stores: in the
source it is closed before the commit and never opened after it, and in the target it is opened
after the commit only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ...backends.migration import MigrationError
from ...core.log.ledger_interface import LedgerProvider
from ...core.log.metadata.namespace_record import (
    MovePhase,
    NamespaceMove,
    NamespaceRecord,
    NamespaceReservation,
)
from ...core.log.metadata.paths import cancelled_path
from ...core.metadata import idempotent_writes
from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import (
    BadVersionError,
    InvalidArgumentError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    RhumblineError,
)
from ...core.runtime.metadata_store import Create
from ...core.runtime.runtime import Runtime
from ...core.runtime.tasks import run_all
from .ledger_steps import LedgerSteps
from .move_end import MoveEnd, StoredRecord
from .move_survey import LEDGERS_AT_ONCE, MoveSurvey, survey
from .stream_steps import StreamSteps

PAUSE_MS_MAX = 60_000
STREAMS_AT_ONCE = 8

_TOKEN_BYTES = 16

T = TypeVar("T")


class MoveProgress(NamedTuple):
    """The progress of a move: the step, and how many of its streams are done."""

    step: str
    done: int = 0
    total: int = 0


OnProgress = Callable[[MoveProgress], None]


class MoveOutcome(NamedTuple):
    """The result of a move. ``pause_ms`` is the time during which no stream could be opened."""

    streams: int
    ledgers: int
    pause_ms: int


class NamespaceMover:
    """One attempt to move a namespace from ``source`` to ``target``; one of them is global."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        source: MoveEnd,
        target: MoveEnd,
        ledgers: LedgerProvider,
        *,
        allowed: Collection[BookieId] | None = None,
        pause_ms_max: int = PAUSE_MS_MAX,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        """``ledgers`` are those of the source. ``allowed`` are the bookies that the target knows.

        None: it knows all of them.
        """
        assert (source.region is None) != (target.region is None), "one of the stores is global"
        self._name = name
        self._source, self._target = source, target
        self._global, self._regional = (
            (source, target) if source.region is None else (target, source)
        )
        self._pause_ms_max = pause_ms_max
        self._on_progress = on_progress
        self._runtime = runtime
        self._mover = runtime.random_bytes(_TOKEN_BYTES).hex()
        self._streams = StreamSteps(runtime, name, source, target, ledgers)
        self._ledgers = LedgerSteps(source, target, allowed)
        self._counted: dict[int, None] = {}
        self._pause_ms = 0

    @property
    def _region(self) -> Region:
        assert self._regional.region is not None
        return self._regional.region

    async def run(self) -> MoveOutcome:
        """Move the namespace, or continue an attempt that was interrupted. Safe to repeat.

        If it fails before the commit, or the pause exceeds its limit, the namespace is in use in
        the source again. Raises NoSuchNamespaceError, InvalidArgumentError (the namespace cannot be
        moved as it is), MigrationError, MetadataError and the errors of ledgers.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        if not await self._is_committed():
            found = await self.survey()
            if found.obstacles:
                raise InvalidArgumentError(
                    f"namespace {self._name} cannot be moved to {self._target.name}: "
                    f"{found.obstacles[0]} ({len(found.obstacles)} such reasons; --check shows all)"
                )
            began = loop.time()
            try:
                async with asyncio.timeout(self._pause_ms_max / 1000):
                    await self._prepare()
                    await self._commit()
            except (Exception, asyncio.CancelledError) as error:
                is_committed = await self._is_over_after(error)
                if not is_committed or isinstance(error, asyncio.CancelledError):
                    raise self._failure(error) from error
        names = await self._complete(began)
        self._report("done", len(names), len(names))
        return MoveOutcome(len(names), len(self._counted), self._pause_ms)

    async def survey(self) -> MoveSurvey:
        """Return what would be moved, and what prevents it. Raises as ``run``."""
        if await self._is_committed():
            return MoveSurvey()
        return await survey(self._streams, self._ledgers, self._target.region)

    async def abort(self) -> None:
        """Roll an attempt back that is not committed: the source is in use again. Safe to repeat.

        Raises MigrationError if the move is committed, MetadataError.
        """
        if await self._is_committed():
            raise MigrationError(
                f"the move of namespace {self._name} to {self._target.name} is committed: repeat "
                "the command without --abort, then move it back"
            )
        await self._roll_back()

    # --- before the commit ----------------------------------------------------------------------

    async def _prepare(self) -> None:
        await self._claim()
        names = await self._streams.names(self._source)
        await self._for_each("taking streams over", names, self._take_stream)
        await self._remove_strays(names)
        await self._for_each("copying streams", names, self._streams.copy)
        await self._streams.copy_others()
        await self._for_each("copying ledgers", names, self._copy_ledgers)
        await self._for_each("comparing", names, self._check)

    async def _claim(self) -> None:
        """Write this attempt into the records of both stores, first into the global one."""
        move = NamespaceMove(MovePhase.LEAVING, self._region, self._mover)
        found = await self._global.read()
        if found is None:
            raise NoSuchNamespaceError(f"no namespace {self._name}")
        if isinstance(found.record, NamespaceReservation):
            move = replace(move, reservation=found.record.token)
        await self._global.claim(found.record.moved(move), found.version)
        regional = await self._regional.read()
        if self._source is self._regional:
            if regional is None:
                raise NoSuchNamespaceError(f"{self._source.name} has no namespace {self._name}")
            await self._regional.claim(regional.record.moved(move), regional.version)
            return
        known = None if regional is None else regional.record.move
        if regional is not None and (known is None or known.phase is not MovePhase.ARRIVING):
            raise MigrationError(f"{self._target.name} has a namespace {self._name} already")
        arriving = found.record.moved(replace(move, phase=MovePhase.ARRIVING))
        await self._regional.claim(arriving, None if regional is None else regional.version)

    async def _take_stream(self, stream: str) -> None:
        try:
            await self._streams.close(stream)
            await self._streams.complete(stream)
        except NoSuchStreamError:
            return  # deleted since it was listed

    async def _remove_strays(self, names: Sequence[str]) -> None:
        """Remove what an interrupted attempt has left of streams that were deleted since."""
        known = {*names}
        for stream in await self._streams.names(self._target):
            if stream not in known:
                await self._streams.remove(self._target, stream)

    async def _copy_ledgers(self, stream: str) -> None:
        ids = await self._streams.ledger_ids(self._source, stream)
        self._counted.update(dict.fromkeys(ids))

        async def copy(ledger_id: int) -> None:
            if obstacle := await self._ledgers.find_obstacle(ledger_id):
                raise InvalidArgumentError(f"stream {stream}: {obstacle}")
            await self._ledgers.freeze(ledger_id)
            await self._ledgers.copy(ledger_id)

        await _in_groups(ids, copy)

    async def _check(self, stream: str) -> None:
        await self._streams.check(stream)
        await _in_groups(await self._streams.ledger_ids(self._source, stream), self._ledgers.check)

    # --- the commit -----------------------------------------------------------------------------

    async def _commit(self) -> None:
        """Change the record in the global store, which decides where the namespace is."""
        self._report("committing")
        move = NamespaceMove(MovePhase.ARRIVED, self._region, self._mover)
        found, regional = await self._global.read(), await self._regional.read()
        for end in (self._global, self._regional):
            await end.guard(self._mover)
        assert found is not None
        assert regional is not None
        assert isinstance(regional.record, NamespaceRecord)
        committed: NamespaceRecord | NamespaceReservation
        if self._target is self._regional:
            token = self._runtime.random_bytes(_TOKEN_BYTES).hex()
            created_ms = regional.record.created_ms
            committed = NamespaceReservation(token, created_ms, self._region, move)
        else:
            committed = regional.record.moved(move)
        await self._global.claim(committed, found.version)

    async def _is_committed(self) -> bool:
        """Return whether the target has the namespace.

        Raises NoSuchNamespaceError, and MigrationError if another move is in progress.
        """
        stored = await self._global.read()
        if stored is None:
            raise NoSuchNamespaceError(f"no namespace {self._name}")
        found = stored.record
        is_reserved = isinstance(found, NamespaceReservation)
        move = found.move
        region = found.region if isinstance(found, NamespaceReservation) else None
        if is_reserved and region != self._region:
            raise MigrationError(f"namespace {self._name} is in the store of region {region}")
        if move is not None and move.region != self._region:
            raise MigrationError(
                f"a move of namespace {self._name} between the global store and that of "
                f"{move.region} is in progress: complete it first"
            )
        is_there = is_reserved == (self._target is self._regional)
        if move is not None and not is_there and move.phase is MovePhase.ARRIVED:
            raise MigrationError(
                f"namespace {self._name} has just been moved to {self._source.name}: complete that "
                "move first, by repeating it"
            )
        if move is not None and is_there and move.phase is MovePhase.LEAVING:
            raise MigrationError(
                f"a move of namespace {self._name} from {self._target.name} to {self._source.name} "
                "is in progress: complete or abort it first"
            )
        return is_there

    async def _is_over_after(self, error: BaseException) -> bool:
        """Roll back after a failure. Return True if the move was committed after all.

        Raises MigrationError if the state of the stores cannot be determined.
        """
        self._report("rolling back")
        try:
            if await self._is_committed():
                return True
            found = await self._global.read()
            if found is None or found.record.move is None:
                return False  # nothing had begun
            await self._global.guard(self._mover)
            await self._roll_back()
        except MigrationError:
            raise
        except RhumblineError as second:
            raise MigrationError(
                f"namespace {self._name} is closed in both stores: repeat the move, or run it with "
                f"--abort ({error}; then {second})"
            ) from error
        return False

    def _failure(self, error: BaseException) -> BaseException:
        if isinstance(error, TimeoutError):
            return MigrationError(
                f"the move took longer than {self._pause_ms_max} ms; namespace {self._name} is in "
                f"use in {self._source.name} again"
            )
        return error

    async def _roll_back(self) -> None:
        """Delete the copies, then open the source again; the global record is changed last."""
        mover = self._runtime.random_bytes(_TOKEN_BYTES).hex()
        found = await self._global.read()
        if found is None or found.record.move is None:
            return  # nothing had begun, or everything is undone
        move = replace(found.record.move, mover=mover)
        await self._global.claim(found.record.moved(move), found.version)
        regional = await self._regional.read()
        if regional is not None and regional.record.move is not None:
            move = replace(regional.record.move, mover=mover)
            await self._regional.claim(regional.record.moved(move), regional.version)
            await self._withdraw()
            if self._source is self._regional:
                await self._unmark(self._regional, mover)
            else:
                await self._regional.remove()
        await self._unmark(self._global, mover)

    async def _withdraw(self) -> None:
        names = await self._streams.names(self._source)

        async def withdraw(stream: str) -> None:
            ids = await self._streams.ledger_ids(self._source, stream)
            await _in_groups(ids, self._ledgers.withdraw)

        await self._for_each("withdrawing ledgers", names, withdraw)
        await self._for_each(
            "removing copies",
            await self._streams.names(self._target),
            lambda stream: self._streams.remove(self._target, stream),
        )
        await self._streams.remove_others(self._target)
        await self._release_all(self._source)

    async def _release_all(self, end: MoveEnd) -> None:
        await self._for_each(
            "opening streams",
            await self._streams.names(end),
            lambda stream: self._streams.release(end, stream),
        )

    # --- after the commit -----------------------------------------------------------------------

    async def _complete(self, began: float) -> list[str]:
        """Finish a committed move, whichever attempt committed it. Return the streams' names."""
        found = await self._global.read()
        if found is None or found.record.move is None:
            return await self._streams.names(self._target)  # it was finished
        mover = found.record.move.mover
        await self._global.guard(mover)
        regional = await self._regional.read()
        if regional is not None and regional.record.move is not None:
            await self._regional.guard(mover)
            if self._target is self._regional:
                move = replace(regional.record.move, phase=MovePhase.ARRIVED)
                await self._regional.claim(regional.record.moved(move), regional.version)
            await self._release_all(self._target)
            self._pause_ms = round((asyncio.get_running_loop().time() - began) * 1000)
            await self._leave_source()
            if self._target is self._regional:
                await self._unmark(self._regional, mover)
            else:
                await self._remove_record(regional)
        names = await self._streams.names(self._target)
        await self._unmark(self._global, mover)
        return names

    async def _leave_source(self) -> None:
        """Hand the ledgers over, then remove the streams from the source."""
        names = await self._streams.names(self._source)

        async def hand_over(stream: str) -> None:
            ids = await self._streams.ledger_ids(self._source, stream)
            self._counted.update(dict.fromkeys(ids))
            await _in_groups(ids, self._ledgers.hand_over)

        await self._for_each("handing ledgers over", names, hand_over)
        await self._for_each(
            "removing the namespace from the source",
            names,
            lambda stream: self._streams.remove(self._source, stream),
        )
        await self._streams.remove_others(self._source)

    async def _remove_record(self, regional: StoredRecord) -> None:
        """Delete the record in the regional store, and cancel its reservation (rule STR-29)."""
        assert regional.record.move is not None
        cancelled = cancelled_path(self._name, regional.record.move.reservation)
        await self._regional.remove(also=[Create(cancelled)])

    # --- parts ----------------------------------------------------------------------------------

    async def _unmark(self, end: MoveEnd, mover: str) -> None:
        """Remove the state of the move from a record, whose policy may change concurrently."""
        while (found := await end.read()) is not None:
            if found.record.move is None or found.record.move.mover != mover:
                return
            try:
                data = found.record.moved(None).encode()
                await idempotent_writes.put(end.store, end.path, data, found.version)
            except BadVersionError:
                continue
            return

    async def _for_each(
        self, step: str, names: Sequence[str], work: Callable[[str], Awaitable[None]]
    ) -> None:
        self._report(step, 0, len(names))
        for start in range(0, len(names), STREAMS_AT_ONCE):
            group = names[start : start + STREAMS_AT_ONCE]
            await run_all([_run(work, stream) for stream in group], step)
            self._report(step, start + len(group), len(names))

    def _report(self, step: str, done: int = 0, total: int = 0) -> None:
        self._on_progress(MoveProgress(step, done, total))


async def _in_groups(ids: Sequence[int], work: Callable[[int], Awaitable[None]]) -> None:
    for start in range(0, len(ids), LEDGERS_AT_ONCE):
        group = ids[start : start + LEDGERS_AT_ONCE]
        await run_all([_run(work, ledger_id) for ledger_id in group], "move ledgers")


async def _run(work: Callable[[T], Awaitable[None]], item: T) -> None:
    await work(item)
