"""Named subscriptions: a position by name, stored in the namespace, moved by compare-and-set.

A position is where reading goes on: everything below it was processed. It only moves forward,
unless it is reset on purpose; so two members of a group that both commit never undo each other.
Committing after processing gives at-least-once; exactly-once needs the position in the
application's own transaction instead.
"""

from dataclasses import dataclass, replace

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchSubscriptionError,
)
from ...protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...runtime.metadata_store import Check, Create, MetadataStore, Version
from .stream_store import CONTENTION_MAX, StreamStore, being_deleted

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stored position. ``generation`` counts resets: a commit from before one is refused."""

    name: str
    position: Dlsn
    generation: int = 0


class SubscriptionStore:
    """The subscriptions of the streams of one namespace."""

    def __init__(self, store: MetadataStore, namespace: str) -> None:
        self._store = store
        self._streams = StreamStore(store, namespace)

    async def create(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """Makes a subscription at ``position``, or returns the one that is there.

        Raises NoSuchStreamError: none is made beside a stream that is gone, or for the next one of
        its name.
        """
        fresh = Subscription(name, position)
        creation = Create(self._path(stream, name), _encode(fresh))
        for _ in range(CONTENTION_MAX):
            record, version = await self._streams.record(stream)
            if record.is_deleting:
                raise being_deleted(stream)
            try:
                await self._store.txn(
                    [Check(self._streams.paths(stream).stream, version), creation]
                )
            except (BadVersionError, NoNodeError, IndeterminateError):
                continue  # if it was carried out, it exists
            except NodeExistsError:
                try:
                    return await self.read(stream, name)
                except NoSuchSubscriptionError:
                    continue  # deleted meanwhile
            return fresh
        raise MetadataUnavailableError(f"subscription {name}: no answer to its creation")

    async def read(self, stream: str, name: str) -> Subscription:
        """The stored position. Raises NoSuchSubscriptionError."""
        return (await self._read(stream, name))[0]

    async def commit(self, subscription: Subscription, stream: str, position: Dlsn) -> Subscription:
        """Moves the position forward to ``position``; never back, so a repeat is safe.

        Raises NoSuchSubscriptionError, and InvalidArgumentError when the subscription was reset
        after ``subscription`` was read: whoever reads from the old place must begin again.
        """
        for _ in range(CONTENTION_MAX):
            found, version = await self._read(stream, subscription.name)
            if found.generation != subscription.generation:
                raise InvalidArgumentError(
                    f"subscription {found.name} of {stream} was reset to {found.position}"
                )
            if position <= found.position:
                return found
            moved = replace(found, position=position)
            if await self._put(stream, moved, version):
                return moved
        raise MetadataUnavailableError(f"subscription {subscription.name} changes all the time")

    async def reset(self, stream: str, name: str, position: Dlsn) -> Subscription:
        """Moves the position anywhere, and makes commits of the present readers fail."""
        for _ in range(CONTENTION_MAX):
            found, version = await self._read(stream, name)
            moved = Subscription(name, position, found.generation + 1)
            if await self._put(stream, moved, version):
                return moved
        raise MetadataUnavailableError(f"subscription {name} changes all the time")

    async def delete(self, stream: str, name: str) -> None:
        """Removes a subscription. Raises NoSuchSubscriptionError, MetadataUnavailableError."""
        is_unsure = False
        for _ in range(CONTENTION_MAX):
            try:
                _, version = await self._read(stream, name)
                await self._store.delete(self._path(stream, name), expect=version)
            except IndeterminateError:
                is_unsure = True
            except BadVersionError:
                continue
            except (NoSuchSubscriptionError, NoNodeError) as error:
                if is_unsure:
                    return
                raise _missing(stream, name) from error
            else:
                return
        raise MetadataUnavailableError(f"subscription {name}: no answer to its deletion")

    async def names(
        self, stream: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """A page of names, in order, from behind ``after``."""
        path = self._streams.paths(stream).subscriptions
        try:
            return await self._store.children(path, after=after, limit=limit)
        except NoNodeError:
            return []

    async def slowest(self, stream: str) -> Dlsn | None:
        """The lowest stored position; None without subscriptions."""
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
            raise _missing(stream, name) from error
        return _decode(name, value.data), value.version

    async def _put(self, stream: str, value: Subscription, version: Version) -> bool:
        try:
            await self._store.put(self._path(stream, value.name), _encode(value), expect=version)
        except (BadVersionError, IndeterminateError):
            return False  # look again
        except NoNodeError as error:
            raise _missing(stream, value.name) from error
        return True


def _missing(stream: str, name: str) -> NoSuchSubscriptionError:
    return NoSuchSubscriptionError(f"no subscription {name} of stream {stream}")


def _encode(value: Subscription) -> bytes:
    return encode_metadata_record(
        _FORMAT, {"position": str(value.position), "generation": value.generation}
    )


def _decode(name: str, data: bytes) -> Subscription:
    fields = decode_metadata_record(
        f"subscription {name}",
        data,
        version=_FORMAT,
        fields={"position": str, "generation": int},
    )
    try:
        return Subscription(name, Dlsn.parse(fields["position"]), fields["generation"])
    except InvalidArgumentError as error:
        raise CorruptionError(f"subscription {name}: {error}") from error
