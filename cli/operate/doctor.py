"""``rhumbline doctor``: checks the settings and the cluster that they refer to."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

import click

from ...client.connect import Client
from ...client.store_client import StoreClient
from ...client.units import show_count, show_ms
from ...core.bookie.start_record import decode
from ...core.ledger.connection.bookie_link import address_for
from ...core.log.metadata.ledger_policies import own_policy
from ...core.log.metadata.oldest_segments import OverdueData
from ...core.log.policy import StreamPolicy
from ...core.metadata.regional_store_records import read_regional_stores
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import (
    ConfigurationError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    RhumblineError,
    UnavailableError,
)
from ...core.protocol.placement import in_regions, parse_spread_rule
from ...placement.region_aware import RegionAwarePlacement
from ...regions.repair.task_store import TaskStore
from ..options import CommandSession, runs, session_options
from ..output import print_rows

_CONNECT_SECONDS_MAX = 5
_STREAMS_MAX = 1000
"""Number of streams of each namespace that are examined for data that should be gone."""
_LATE_MS = 600_000
"""A warning follows when data is overdue by more than its grace period and this time, because a
segment may wait for the grace period of an earlier one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``verdict`` is ok, warning or fault."""

    subject: str
    verdict: str
    detail: str


class _Late(NamedTuple):
    """The data of a stream that is overdue for deletion."""

    overdue_ms: int
    stream: str
    data: OverdueData
    policy: StreamPolicy


@click.command()
@session_options
@runs
async def doctor(session: CommandSession) -> None:
    """Check settings, metadata store, bookies, namespaces and the deletion of old data.

    Exits with 1 if there is a fault.
    """
    findings = [Finding("settings", "ok", str(session.loaded.file or "no file"))]
    try:
        async with session.client(moves_data=False) as client:
            store = f"{client.store.uri}, instance {client.instance_id}"
            findings.append(Finding("metadata store", "ok", store))
            findings.append(await _region(client))
            findings += [finding async for finding in _regional_stores(client)]
            findings += [finding async for finding in _bookies(client)]
            findings += [finding async for finding in _namespaces(client)]
            findings.append(await _retention(client, bool(session.settings.cluster.cold)))
    except RhumblineError as error:
        findings.append(Finding("cluster", "fault", str(error)))
    rows = [
        {"check": finding.subject, "verdict": finding.verdict, "detail": finding.detail}
        for finding in findings
    ]
    print_rows(rows, session.output, empty="nothing was checked")
    if any(finding.verdict == "fault" for finding in findings):
        sys.exit(1)


async def _regional_stores(client: Client) -> AsyncIterator[Finding]:
    """Check the metadata stores of the regions, and that their bookies are registered there."""
    directory = client.directory
    writable = {bookie: await directory.region_of(bookie) for bookie in await directory.writable()}
    configured = client.regional_regions
    for region in await read_regional_stores(client.store):
        if region not in configured:
            detail = "is not in cluster.regional_metadata: its namespaces cannot be used from here"
            yield Finding(f"metadata store of {region}", "warning", detail)
    for region in configured:
        subject = f"metadata store of {region}"
        try:
            store = await client.namespaces.store_of(region)
            registered = await store.directory.writable()
        except RhumblineError as error:
            yield Finding(subject, "fault", str(error))
            continue
        missing = [b for b, of in writable.items() if of == region and b not in registered]
        if missing:
            detail = f"{store.store.uri}: not registered there, restart with its setting: "
            yield Finding(subject, "warning", detail + ", ".join(missing))
        else:
            yield Finding(subject, "ok", f"{store.store.uri}, {len(registered)} bookies")


async def _region(client: Client) -> Finding:
    try:
        await client.check_region()
    except ConfigurationError as error:
        return Finding("region", "fault", str(error))
    return Finding("region", "ok", client.region or "not set, and not required")


async def _bookies(client: Client) -> AsyncIterator[Finding]:
    directory = client.directory
    known = await directory.all_known()
    writable, read_only = await directory.writable(), await directory.read_only()
    if not known:
        yield Finding("bookies", "fault", "none is formatted; see `rhumbline bookie format`")
    for bookie in known:
        if bookie in writable:
            yield await _check_connection(client, bookie, "ok")
        elif bookie in read_only:
            yield await _check_connection(client, bookie, "warning")
        else:
            yield Finding(f"bookie {bookie}", "warning", "down (not registered)")


async def _check_connection(client: Client, bookie: BookieId, verdict: str) -> Finding:
    """Try to connect to the address that this process would use."""
    subject = f"bookie {bookie}"
    try:
        address = address_for(await client.directory.registration(bookie), client.region)
        async with asyncio.timeout(_CONNECT_SECONDS_MAX):
            _, writer = await asyncio.open_connection(address.host, address.port)
        writer.close()
    except (OSError, TimeoutError, RhumblineError) as error:
        return Finding(subject, "fault", f"cannot be reached: {error or type(error).__name__}")
    region = await client.directory.region_of(bookie) or "unknown region"
    note = "" if verdict == "ok" else ", read-only"
    limbo = await _recorded_limbo(client, bookie)
    if limbo:
        verdict, note = "warning", f"{note}, in limbo: {limbo}"
    return Finding(subject, verdict, f"reachable at {address}, {region}{note}")


async def _recorded_limbo(client: Client, bookie: BookieId) -> str:
    """Return why the bookie is in limbo, empty if it is not (or is an Apache bookie)."""
    value = await client.directory.read_start(bookie)
    return "" if value is None else decode(value.data).limbo


async def _namespaces(client: Client) -> AsyncIterator[Finding]:
    found = [listed async for listed in client.namespaces.all()]
    if not found:
        yield Finding("namespaces", "warning", "none exists; see `rhumbline namespace create`")
    for name, region in found:
        try:
            store = await client.namespaces.store_of(region)
            policy = await client.namespace_of(store, name).policy()
        except (ConfigurationError, NoSuchNamespaceError, UnavailableError) as error:
            yield Finding(f"namespace {name}", "warning", f"cannot be examined: {error}")
        else:
            yield await _check_writable(client, store, name, policy)


async def _check_writable(
    client: Client, store: StoreClient, name: str, policy: StreamPolicy
) -> Finding:
    """Check that a new segment could be created now."""
    candidates = await store.directory.snapshot()
    try:
        RegionAwarePlacement().new_ensemble(
            policy.quorum,
            in_regions(candidates, policy.regions),
            random=client.runtime.random,
            near=client.region,
            rule=parse_spread_rule(policy.spread),
        )
    except RhumblineError as error:
        return Finding(f"namespace {name}", "fault", f"cannot be written: {error}")
    return Finding(f"namespace {name}", "ok", f"{policy.quorum} can be written")


async def _retention(client: Client, has_cold_store: bool) -> Finding:
    """Check that old data is deleted: a process does it, and nothing is overdue for long."""
    wanting, with_archive, late = 0, 0, list[_Late]()
    stores = {"global": client.global_store}
    async for name, region in client.namespaces.all():
        try:
            store = await client.namespaces.store_of(region)
            namespace = client.namespace_of(store, name)
            default = await namespace.policy()
        except (ConfigurationError, NoSuchNamespaceError, UnavailableError):
            continue  # reported above
        stores[region or "global"] = store
        for stream in await namespace.streams(limit=_STREAMS_MAX):
            try:
                policy = await own_policy(store.store, name, stream) or default
                overdue = await namespace.find_overdue(stream)
            except NoSuchStreamError:
                continue  # deleted meanwhile
            wanting += policy.wants_retention
            with_archive += policy.needs_archive_for_retention
            if overdue is not None:
                late.append(_Late(overdue.overdue_ms, f"{name}/{stream}", overdue, policy))
    wants = f"{show_count(wanting, 'stream wants', 'streams want')} old data deleted"
    detail, is_late = f"{wants}; none is overdue", False
    if late:
        first = max(late, key=lambda one: one.overdue_ms)
        detail = (
            f"{wants}; the oldest data that should be gone is {show_ms(first.overdue_ms)} "
            f"overdue: {first.stream}, segment {first.data.lssn}, by "
            f"{first.data.reason}"
        )
        is_late = first.overdue_ms > first.policy.purge_grace_ms + _LATE_MS
    for where, store in stores.items() if wanting or late else ():
        if await TaskStore(store.store).auditor() is None:
            detail += "; no repair process is running to delete it: start `rhumbline repair run`"
            detail += "" if where == "global" else f" in region {where}"
            is_late = True
    if with_archive and not has_cold_store:
        limiting = show_count(with_archive, "stream limits", "streams limit")
        detail += (
            f"; {limiting} hot copies or archives, but cluster.cold is not set: "
            "without it the repair process deletes neither, and `archive serve` has to run"
        )
        is_late = True
    return Finding("retention", "warning" if is_late else "ok", detail)
