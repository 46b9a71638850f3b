"""Joins a regional metadata store to a cluster (rule LED-27).

The steps have this order, so that two stores never share a number and an interrupted attempt can be
repeated:

1. the regional store gets its region and a random token, once;
2. the global store issues a number to this token, or finds the one that it issued before;
3. the regional store gets the layout, the cluster's instance id and the start of its ids;
4. its record gets the number, which completes it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from ..protocol.bookie_id import Region, check_region
from ..protocol.errors import (
    BadVersionError,
    LimitExceededError,
    MetadataUnavailableError,
    NodeExistsError,
    WrongClusterError,
)
from ..runtime.metadata_store import MetadataStore, Version
from ..runtime.runtime import Runtime
from . import idempotent_writes
from .cluster_layout import ROOT, Paths, initialise_store, instance_id
from .ledger_ids import GLOBAL_STORE, STORE_NUMBER_MAX, id_range_of
from .ledger_store import LedgerStore, high_bits_of, high_name
from .regional_store_records import RegionalStoreRecord, encode_issued, read_issued

_TOKEN_BYTES = 16
_ATTEMPTS = 16


async def join_regional_store(
    store: MetadataStore, regional: MetadataStore, region: str, runtime: Runtime, root: str = ROOT
) -> RegionalStoreRecord:
    """Make ``regional`` the store of ``region`` in the cluster of ``store``. Safe to repeat.

    Raises WrongClusterError if ``regional`` belongs to another region or cluster, or the region has
    another store already, InvalidArgumentError (invalid name), MetadataError.
    """
    paths = Paths(root)
    instance = await instance_id(store, root)
    if await idempotent_writes.read_if_exists(store, paths.own_store) is not None:
        raise WrongClusterError(f"{store.uri} is a regional store, not the cluster's global one")
    record, version = await _begin(regional, check_region(region), runtime, paths)
    if record.number != GLOBAL_STORE and await instance_id(regional, root) != instance:
        raise WrongClusterError(f"{regional.uri} belongs to another cluster than {store.uri}")
    number = await _issue_number(store, record, paths)
    found = await initialise_store(regional, instance, root)
    assert found == instance, "another cluster's store has a number there"
    first = f"{paths.long_ids}/{high_name(high_bits_of(number).start)}"
    if await idempotent_writes.read_if_exists(regional, first) is None:
        with suppress(NodeExistsError):  # by a concurrent call
            await idempotent_writes.create(regional, first)
    joined = replace(record, number=number)
    if joined != record:
        await _complete(regional, joined, version, paths)
    return joined


async def _begin(
    regional: MetadataStore, region: Region, runtime: Runtime, paths: Paths
) -> tuple[RegionalStoreRecord, Version]:
    """Return the record of the regional store, which is created if the store is empty."""
    value = await idempotent_writes.read_if_exists(regional, paths.own_store)
    if value is None:
        if await idempotent_writes.read_if_exists(regional, paths.layout) is not None:
            raise WrongClusterError(f"{regional.uri} is the global store of a cluster")
        new = RegionalStoreRecord(region, runtime.random_bytes(_TOKEN_BYTES).hex())
        try:
            return new, await idempotent_writes.create(regional, paths.own_store, new.encode())
        except NodeExistsError:
            value = await regional.get(paths.own_store)
    record = RegionalStoreRecord.decode(value.data)
    if record.region != region:
        raise WrongClusterError(f"{regional.uri} is the store of region {record.region}")
    return record, value.version


async def _complete(
    regional: MetadataStore, joined: RegionalStoreRecord, version: Version, paths: Paths
) -> None:
    try:
        await idempotent_writes.put(regional, paths.own_store, joined.encode(), version)
    except BadVersionError:
        if RegionalStoreRecord.decode((await regional.get(paths.own_store)).data) != joined:
            raise


async def _issue_number(store: MetadataStore, record: RegionalStoreRecord, paths: Paths) -> int:
    """Return the number that the global store issues to the record's token.

    A store that has a number keeps it: a global store that was rebuilt does not know it any more.
    """
    for _ in range(_ATTEMPTS):
        issued, version = await read_issued(store, paths.root)
        known = issued.get(record.region)
        if known is not None:
            if known.token != record.token:
                raise WrongClusterError(
                    f"region {record.region} has another metadata store already, with number "
                    f"{known.number}"
                )
            return known.number
        number = record.number
        if number == GLOBAL_STORE:
            number = await _next_free(store, issued, paths)
        elif any(other.number == number for other in issued.values()):
            raise WrongClusterError(f"another region has number {number} in {store.uri}")
        table = {**issued, record.region: replace(record, number=number)}
        try:
            if version is None:
                await idempotent_writes.create(store, paths.regional_stores, encode_issued(table))
            else:
                await idempotent_writes.put(
                    store, paths.regional_stores, encode_issued(table), version
                )
        except (BadVersionError, NodeExistsError):
            continue
        return number
    raise MetadataUnavailableError(f"{paths.regional_stores} changed in {_ATTEMPTS} attempts")


async def _next_free(
    store: MetadataStore, issued: Mapping[Region, RegionalStoreRecord], paths: Paths
) -> int:
    """Return the lowest number in whose range the global store has no ledger.

    Clients of BookKeeper may have chosen such ids themselves.
    """
    number = max((record.number for record in issued.values()), default=GLOBAL_STORE) + 1
    ledgers = LedgerStore(store, paths.root)
    while number <= STORE_NUMBER_MAX:
        ids = id_range_of(number)
        found = await ledgers.ids(after=ids.start - 1, limit=1)
        if not found or found[0] not in ids:
            return number
        number += 1
    raise LimitExceededError(f"{store.uri} has no numbers of regional stores left")
