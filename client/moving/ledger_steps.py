"""The steps of a move for the metadata of one ledger (rule LED-28).

``freeze`` and ``copy`` come before the commit, ``hand_over`` after it, ``withdraw`` in place of it.
Each may be repeated.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...backends.migration import MigrationError
from ...core.metadata import idempotent_writes
from ...core.metadata.ledger_ids import store_number_of
from ...core.metadata.ledger_places import encode_place, read_place
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import MOVING_KEY, LedgerMetadata, LedgerState
from ...core.runtime.metadata_store import Create, Delete, Operation, Put, Value
from ...core.wire.ledger_metadata import decode, encode
from .move_end import MoveEnd


class LedgerSteps:
    """Moves ledger metadata from ``source`` to ``target``."""

    def __init__(
        self, source: MoveEnd, target: MoveEnd, allowed: Collection[BookieId] | None = None
    ) -> None:
        """``allowed`` are the bookies that the target knows; None: it knows all of them."""
        self._source = source
        self._target = target
        self._allowed = allowed

    async def find_obstacle(self, ledger_id: int) -> str:
        """Return why the ledger cannot be in the target; "" if it can."""
        if store_number_of(ledger_id) not in (self._source.number, self._target.number):
            return f"the id of ledger {ledger_id} is of another regional store"
        value = await self._value(self._source, ledger_id)
        if value is None or self._allowed is None:
            return ""
        members = decode(ledger_id, value.data).bookies()
        outside = [bookie for bookie in members if bookie not in self._allowed]
        if not outside:
            return ""
        return f"ledger {ledger_id} has copies outside: {', '.join(outside)}"

    async def freeze(self, ledger_id: int) -> None:
        """Mark the metadata in the source, so that nothing changes it until the move is over."""

        async def plan() -> Sequence[Operation]:
            value = await self._value(self._source, ledger_id)
            if value is None:
                return ()  # its segment is being purged or was archived
            metadata = decode(ledger_id, value.data)
            if MOVING_KEY in metadata.custom:
                return ()
            if metadata.state is not LedgerState.CLOSED:
                raise MigrationError(f"ledger {ledger_id} is not closed although its segment is")
            marked = replace(metadata, custom={**metadata.custom, MOVING_KEY: b"1"})
            path = self._source.paths.ledger(ledger_id)
            return [Put(path, encode(marked), expect=value.version)]

        await self._source.change(plan)

    async def copy(self, ledger_id: int) -> None:
        """Make the metadata in the target equal to that in the source, which is frozen."""

        async def plan() -> Sequence[Operation]:
            frozen = await self._value(self._source, ledger_id)
            found = await self._value(self._target, ledger_id)
            path = self._target.paths.ledger(ledger_id)
            operations: list[Operation] = []
            if frozen is None:
                if found is not None:
                    operations.append(Delete(path, expect=found.version))
                return operations
            data = encode(_unmarked(decode(ledger_id, frozen.data)))
            if found is None:
                operations.append(Create(path, data))
            elif found.data != data:
                operations.append(Put(path, data, expect=found.version))
            if store_number_of(ledger_id) != self._target.number:
                operations += await _set_place(self._target, ledger_id, self._target.number)
            return operations

        await self._target.change(plan)

    async def check(self, ledger_id: int) -> None:
        """Verify that the copy is equal. Raises MigrationError."""
        frozen = await self._value(self._source, ledger_id)
        found = await self._value(self._target, ledger_id)
        place = await read_place(self._target.store, self._target.paths, ledger_id)
        is_home = store_number_of(ledger_id) == self._target.number
        is_placed = is_home or (place is not None and place.number == self._target.number)
        if frozen is None:
            return
        if MOVING_KEY not in decode(ledger_id, frozen.data).custom:
            raise MigrationError(f"ledger {ledger_id} is not frozen in {self._source.name}")
        expected = _unmarked(decode(ledger_id, frozen.data))
        if not is_placed or found is None or decode(ledger_id, found.data) != expected:
            raise MigrationError(f"the copy of ledger {ledger_id} differs from the source")

    async def hand_over(self, ledger_id: int) -> None:
        """Delete the metadata in the source, and record that the target has it."""
        if store_number_of(ledger_id) == self._target.number:

            async def plan_return() -> Sequence[Operation]:
                return await _set_place(self._target, ledger_id, self._target.number)

            await self._target.change(plan_return)

        async def plan() -> Sequence[Operation]:
            source, operations = self._source, list[Operation]()
            value = await self._value(source, ledger_id)
            if value is not None and MOVING_KEY not in decode(ledger_id, value.data).custom:
                raise MigrationError(f"ledger {ledger_id} is not frozen in {source.name}")
            if value is not None:
                operations.append(Delete(source.paths.ledger(ledger_id), expect=value.version))
            place = await read_place(source.store, source.paths, ledger_id)
            if store_number_of(ledger_id) == source.number:
                if value is None and place is None:
                    return ()  # purged or archived before the commit: bookies may delete it
                operations += await _set_place(source, ledger_id, self._target.number)
            elif place is not None:
                operations.append(Delete(source.paths.place(ledger_id), expect=place.version))
            return operations

        await self._source.change(plan)

    async def withdraw(self, ledger_id: int) -> None:
        """Undo ``freeze`` and ``copy``: the target has no copy, the source is as before."""

        async def plan_target() -> Sequence[Operation]:
            target = self._target
            value = await self._value(target, ledger_id)
            place = await read_place(target.store, target.paths, ledger_id)
            is_home = store_number_of(ledger_id) == target.number
            if is_home and (place is None or place.number == target.number):
                raise MigrationError(f"ledger {ledger_id} belongs to {target.name} already")
            operations: list[Operation] = []
            if value is not None:
                operations.append(Delete(target.paths.ledger(ledger_id), expect=value.version))
            if not is_home and place is not None:
                operations.append(Delete(target.paths.place(ledger_id), expect=place.version))
            return operations

        async def plan_source() -> Sequence[Operation]:
            value = await self._value(self._source, ledger_id)
            if value is None:
                return ()
            metadata = decode(ledger_id, value.data)
            if MOVING_KEY not in metadata.custom:
                return ()
            path = self._source.paths.ledger(ledger_id)
            return [Put(path, encode(_unmarked(metadata)), expect=value.version)]

        await self._target.change(plan_target)
        await self._source.change(plan_source)

    async def _value(self, end: MoveEnd, ledger_id: int) -> Value | None:
        return await idempotent_writes.read_if_exists(end.store, end.paths.ledger(ledger_id))


async def _set_place(end: MoveEnd, ledger_id: int, number: int) -> list[Operation]:
    """Return what makes the record in ``end`` say that the store ``number`` has the ledger."""
    path, data = end.paths.place(ledger_id), encode_place(number)
    place = await read_place(end.store, end.paths, ledger_id)
    if place is None:
        return [Create(path, data)]
    return [] if place.number == number else [Put(path, data, expect=place.version)]


def _unmarked(metadata: LedgerMetadata) -> LedgerMetadata:
    custom = {key: value for key, value in metadata.custom.items() if key != MOVING_KEY}
    return replace(metadata, custom=custom)
