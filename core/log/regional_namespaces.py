"""Creates and deletes namespaces that are in a regional metadata store (rule STR-29).

The global store holds a *reservation* under the name of the namespace, and the regional store
holds the namespace. The order of the steps makes a name unique in the cluster at every moment,
whatever is interrupted or arrives late:

- The reservation is created first. The namespace is created under the condition that the token of
  the reservation was not cancelled in the regional store.
- The namespace is deleted first, and in the same transaction the token is cancelled. The
  reservation is deleted last. So no creation that began under a reservation can succeed after the
  reservation was deleted.
"""

from ..metadata import idempotent_writes
from ..protocol.bookie_id import Region
from ..protocol.errors import (
    IndeterminateError,
    MetadataUnavailableError,
    NamespaceExistsError,
    NodeExistsError,
    NoNodeError,
    NoSuchNamespaceError,
)
from ..runtime.metadata_store import Check, Create, MetadataReads, MetadataStore, Version
from ..runtime.runtime import Runtime
from .metadata.namespace_record import NamespaceRecord, NamespaceReservation, moving_error
from .metadata.paths import cancelled_path, namespace_path
from .metadata.stream_store import CONTENTION_MAX
from .namespace import delete_namespace
from .policy import StreamPolicy

_TOKEN_BYTES = 16


async def create_regional_namespace(
    store: MetadataStore,
    regional: MetadataStore,
    region: Region,
    runtime: Runtime,
    name: str,
    policy: StreamPolicy,
) -> None:
    """Create a namespace in ``regional``, the store of ``region``; ``store`` is the global one.

    A repeat after an error completes it. Raises NamespaceExistsError, InvalidArgumentError (invalid
    name), MetadataError.
    """
    path = namespace_path(name)
    record = NamespaceRecord(
        runtime.random_bytes(_TOKEN_BYTES).hex(), runtime.clock.wall_ms(), policy
    )
    for _ in range(CONTENTION_MAX):
        reservation, version = await _reserve(store, region, runtime, name)
        cancelled = cancelled_path(name, reservation.token)
        try:
            await regional.txn([Check(cancelled, None), Create(path, record.encode())])
            return
        except (NodeExistsError, IndeterminateError) as error:
            value = await idempotent_writes.read_if_exists(regional, path)
            if value is not None:
                if NamespaceRecord.decode(name, value.data).token == record.token:
                    return
                raise NamespaceExistsError(f"namespace {name} already exists") from error
            if await idempotent_writes.read_if_exists(regional, cancelled) is not None:
                await idempotent_writes.discard(store, path, version)  # its deletion has begun
    raise MetadataUnavailableError(
        f"namespace {name}: creation not confirmed after {CONTENTION_MAX} attempts"
    )


async def delete_regional_namespace(
    store: MetadataStore, regional: MetadataStore, name: str
) -> None:
    """Delete an empty namespace of ``regional``. A repeat after an error completes it.

    Raises NoSuchNamespaceError, InvalidArgumentError if it still has streams, NamespaceMovingError,
    MetadataError.
    """
    value = await idempotent_writes.read_if_exists(store, namespace_path(name))
    reservation = None if value is None else NamespaceReservation.decode(name, value.data)
    if value is None or reservation is None:
        raise NoSuchNamespaceError(f"no namespace {name} in a regional store")
    if reservation.move is not None:
        raise moving_error(name)
    cancelled = cancelled_path(name, reservation.token)
    while await idempotent_writes.read_if_exists(regional, cancelled) is None:
        try:
            await delete_namespace(regional, name, [Create(cancelled)])
        except NoSuchNamespaceError:
            try:  # its creation was interrupted
                await regional.txn([Check(namespace_path(name), None), Create(cancelled)])
            except NodeExistsError:
                continue  # it was created or cancelled meanwhile
    await idempotent_writes.discard(store, namespace_path(name), value.version)


async def read_reservation(
    store: MetadataReads, name: str, *, stale_ok: bool = False
) -> NamespaceReservation | None:
    """Return the reservation of a name in the global store; None if there is none.

    With ``stale_ok`` a reservation or a namespace may be old, but None for a name that is not used
    is not. Raises MetadataUnavailableError, CorruptionError.
    """
    value = await idempotent_writes.read_if_exists(store, namespace_path(name), stale_ok=stale_ok)
    return None if value is None else NamespaceReservation.decode(name, value.data)


async def _reserve(
    store: MetadataStore, region: Region, runtime: Runtime, name: str
) -> tuple[NamespaceReservation, Version]:
    """Return the reservation of the name for ``region``, which is made if the name is free."""
    path, now_ms = namespace_path(name), runtime.clock.wall_ms()
    new = NamespaceReservation(runtime.random_bytes(_TOKEN_BYTES).hex(), now_ms, region)
    try:
        return new, await idempotent_writes.create(store, path, new.encode())
    except NodeExistsError as error:
        try:
            value = await store.get(path)
        except NoNodeError:
            raise MetadataUnavailableError(f"namespace {name} is being deleted") from error
        found = NamespaceReservation.decode(name, value.data)
        if found is None or found.region != region:
            where = "the global metadata store" if found is None else f"region {found.region}"
            raise NamespaceExistsError(f"namespace {name} already exists, in {where}") from error
        return found, value.version
