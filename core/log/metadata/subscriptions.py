"""Subscriptions: named reader positions in the metadata store (rule STR-24).

Everything below the position was processed, and reading continues there. A commit is a
compare-and-set that only moves the position forward, so two members of a group never undo each
other's commits; only a reset may move it back. Committing after processing gives at-least-once
delivery. For exactly-once, the application stores the position in its own transaction instead.

A consumer that acknowledges single records stores which ones above the position are acknowledged
(rule STR-36). One consumer at a time may do so: it takes the subscription over first.
"""

from dataclasses import dataclass, replace

from ...protocol.dlsn import Dlsn, check_position
from ...protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    NoSuchSubscriptionError,
    SubscriptionLostError,
)
from ...protocol.metadata_record import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from ...runtime.metadata_store import Check, Create, Delete, MetadataStore, Put, Version
from .acknowledgements import Acknowledgements
from .namespace_record import moving_error
from .stream_store import CONTENTION_MAX, StreamStore

_FORMAT = 1
_ACKNOWLEDGED_FORMAT = 2
"""Programs that know no acknowledgements of single records refuse a subscription with them."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stored position. ``generation`` counts resets; commits from before a reset are refused."""

    name: str
    position: Dlsn
    generation: int = 0
    acknowledgements: Acknowledgements | None = None
    """The acknowledged records above the position; None: no consumer acknowledges single ones."""


class SubscriptionStore:
    """The subscriptions of the streams of one namespace."""

    def __init__(self, store: MetadataStore, namespace: str) -> None:
        self._store = store
        self._streams = StreamStore(store, namespace)

    async def create(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """Create a subscription at ``position``, or return the existing one.

        Raises NoSuchStreamError, InvalidPositionError if the position is of another stream. A
        subscription is never created for a deleted stream or for another stream that was created
        under its name meanwhile.
        """
        for _ in range(CONTENTION_MAX):
            record, version = await self._streams.record(stream)
            self._streams.check_changeable(stream, record)
            check_position(position).check_stream(stream, record.stream_id)
            fresh = Subscription(name, position.in_stream(record.stream_id))
            creation = Create(self._path(stream, name), _encode(fresh))
            try:
                await self._store.txn(
                    [Check(self._streams.paths(stream).stream, version), creation]
                )
            except (BadVersionError, NoNodeError, IndeterminateError):
                continue  # if the request was carried out, the next attempt finds the node
            except NodeExistsError:
                try:
                    return await self.read(stream, name)
                except NoSuchSubscriptionError:
                    continue  # deleted meanwhile
            return fresh
        raise MetadataUnavailableError(
            f"subscription {name}: creation not confirmed after {CONTENTION_MAX} attempts"
        )

    async def read(self, stream: str, name: str) -> Subscription:
        """Return the stored position. Raises NoSuchSubscriptionError."""
        return (await self._read(stream, name))[0]

    async def commit(self, subscription: Subscription, stream: str, position: Dlsn) -> Subscription:
        """Move the position forward to ``position``, never back. Safe to repeat.

        Raises NoSuchSubscriptionError, InvalidPositionError if the position is of another stream,
        and InvalidArgumentError if the subscription was reset after ``subscription`` was read; the
        reader must then begin again at the new position.
        """
        for _ in range(CONTENTION_MAX):
            found, version = await self._read(stream, subscription.name)
            check_position(position).check_stream(stream, found.position.stream_id)
            position = position.in_stream(found.position.stream_id or position.stream_id)
            if found.generation != subscription.generation:
                raise InvalidArgumentError(
                    f"subscription {found.name} of {stream} was reset to {found.position}"
                )
            if position <= found.position:
                return found
            held = found.acknowledgements
            moved = replace(
                found,
                position=position,
                acknowledgements=None if held is None else held.above(position),
            )
            if await self._put(stream, moved, version):
                return moved
        raise MetadataUnavailableError(
            f"subscription {subscription.name}: not committed in {CONTENTION_MAX} attempts"
        )

    async def take_over(self, stream: str, name: str, owner: str) -> Subscription:
        """Make the consumer ``owner`` the only one that may store acknowledgements.

        Returns what earlier consumers stored. Safe to repeat. Raises NoSuchSubscriptionError.
        """
        for _ in range(CONTENTION_MAX):
            found, version = await self._read(stream, name)
            held = found.acknowledgements or Acknowledgements(owner, found.position)
            taken = replace(found, acknowledgements=replace(held, owner=owner))
            if taken == found or await self._put(stream, taken, version):
                return taken
        raise MetadataUnavailableError(
            f"subscription {name}: not taken over in {CONTENTION_MAX} attempts"
        )

    async def store(
        self,
        subscription: Subscription,
        stream: str,
        position: Dlsn,
        acknowledgements: Acknowledgements,
    ) -> Subscription:
        """Store the position and the acknowledgements above it, on behalf of their owner.

        The position never moves back. Safe to repeat. Raises SubscriptionLostError if another
        consumer took ``subscription`` over or it was reset since, and NoSuchSubscriptionError.
        """
        for _ in range(CONTENTION_MAX):
            found, version = await self._read(stream, subscription.name)
            held = found.acknowledgements
            if found.generation != subscription.generation:
                raise SubscriptionLostError(
                    f"subscription {found.name} of {stream} was reset to {found.position}"
                )
            if held is None or held.owner != acknowledgements.owner:
                raise SubscriptionLostError(
                    f"another consumer took over subscription {found.name} of {stream}"
                )
            position = max(found.position, position.in_stream(found.position.stream_id))
            moved = replace(
                found, position=position, acknowledgements=acknowledgements.above(position)
            )
            if moved == found or await self._put(stream, moved, version):
                return moved
        raise MetadataUnavailableError(
            f"subscription {subscription.name}: not stored in {CONTENTION_MAX} attempts"
        )

    async def reset(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """Set the position to any value. Commits of readers that began before the reset fail.

        Raises NoSuchSubscriptionError, InvalidPositionError if the position is of another stream.
        """
        for _ in range(CONTENTION_MAX):
            found, version = await self._read(stream, name)
            check_position(position).check_stream(stream, found.position.stream_id)
            position = position.in_stream(found.position.stream_id or position.stream_id)
            moved = Subscription(name, position, found.generation + 1)
            if await self._put(stream, moved, version):
                return moved
        raise MetadataUnavailableError(
            f"subscription {name}: not reset in {CONTENTION_MAX} attempts"
        )

    async def delete(self, stream: str, name: str) -> None:
        """Delete a subscription. Raises NoSuchSubscriptionError, MetadataUnavailableError."""
        is_unsure = False
        for _ in range(CONTENTION_MAX):
            try:
                _, version = await self._read(stream, name)
                removal = Delete(self._path(stream, name), expect=version)
                await self._store.txn([await self._unmoved(stream, name), removal])
            except IndeterminateError:
                is_unsure = True
            except BadVersionError:
                continue
            except (NoSuchSubscriptionError, NoNodeError) as error:
                if is_unsure:
                    return
                raise _missing_error(stream, name) from error
            else:
                return
        raise MetadataUnavailableError(
            f"subscription {name}: deletion not confirmed after {CONTENTION_MAX} attempts"
        )

    async def names(
        self, stream: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Return a page of names that follow ``after``, in order."""
        path = self._streams.paths(stream).subscriptions
        try:
            return await self._store.children(path, after=after, limit=limit)
        except NoNodeError:
            return []

    async def slowest(self, stream: str) -> Dlsn | None:
        """Return the lowest stored position; None if there are no subscriptions."""
        lowest: Dlsn | None = None
        for name in await self.names(stream):
            try:
                position = (await self.read(stream, name)).position
            except NoSuchSubscriptionError:
                continue  # deleted meanwhile
            lowest = position if lowest is None else min(lowest, position)
        return lowest

    def _path(self, stream: str, name: str) -> str:
        return self._streams.paths(stream).subscription(name)

    async def _read(self, stream: str, name: str) -> tuple[Subscription, Version]:
        try:
            value = await self._store.get(self._path(stream, name))
        except NoNodeError as error:
            raise _missing_error(stream, name) from error
        return decode_subscription(name, value.data), value.version

    async def _unmoved(self, stream: str, name: str) -> Check:
        """Return a transaction check that the stream is not being moved (rule STR-34)."""
        try:
            record, version = await self._streams.record(stream)
        except NoSuchStreamError as error:
            raise _missing_error(stream, name) from error
        if record.is_moving:
            raise moving_error(self._streams.namespace)
        return Check(self._streams.paths(stream).stream, version)

    async def _put(self, stream: str, value: Subscription, version: Version) -> bool:
        change = Put(self._path(stream, value.name), _encode(value), expect=version)
        try:
            await self._store.txn([await self._unmoved(stream, value.name), change])
        except (BadVersionError, IndeterminateError):
            return False  # read again
        except NoNodeError as error:
            raise _missing_error(stream, value.name) from error
        return True


def _missing_error(stream: str, name: str) -> NoSuchSubscriptionError:
    return NoSuchSubscriptionError(f"no subscription {name} of stream {stream}")


def _encode(value: Subscription) -> bytes:
    fields: dict[str, object] = {"position": str(value.position), "generation": value.generation}
    if value.acknowledgements is None:
        return encode_metadata_record(_FORMAT, fields)
    fields["acknowledgements"] = value.acknowledgements.to_fields()
    return encode_metadata_record(_ACKNOWLEDGED_FORMAT, fields)


def decode_subscription(name: str, data: bytes) -> Subscription:
    """Decode the value of a subscription's node. Raises CorruptionError, ForeignDataError."""
    has_acknowledgements = metadata_record_version(data) == _ACKNOWLEDGED_FORMAT
    fields = decode_metadata_record(
        f"subscription {name}",
        data,
        version=_ACKNOWLEDGED_FORMAT if has_acknowledgements else _FORMAT,
        fields=_FIELDS if has_acknowledgements else _PLAIN_FIELDS,
    )
    try:
        position = Dlsn.parse(fields["position"])
    except InvalidArgumentError as error:
        raise CorruptionError(f"subscription {name}: {error}") from error
    held = fields.get("acknowledgements")
    return Subscription(
        name,
        position,
        fields["generation"],
        None if held is None else Acknowledgements.from_fields(held),
    )


_PLAIN_FIELDS = {"position": str, "generation": int}
_FIELDS = {**_PLAIN_FIELDS, "acknowledgements": dict}
