"""``rhumbline doctor``: checks the settings and the cluster that they refer to."""

import sys
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import click

from ...client.connect import Client
from ...client.store_client import StoreClient
from ...client.units import show_count, show_ms
from ...core.log.metadata.ledger_policies import own_policy
from ...core.log.metadata.oldest_segments import OverdueData
from ...core.log.policy import StreamPolicy
from ...core.metadata.regional_store_records import read_regional_stores
from ...core.protocol.errors import (
    ConfigurationError,
    NoSuchNamespaceError,
    NoSuchStreamError,
    RhumblineError,
    UnavailableError,
)
from ...proxies.quotas.quota_store import QuotaStore
from ...regions.repair.task_store import TaskStore
from ...server.server_directory import list_servers
from ..options import CommandSession, runs, session_options
from ..output import ProgressBar, print_rows
from ..output_schema import prints, record, rows, text
from ..overview.bookies import read_bookies
from ..overview.proxies import read_proxies
from .durability.checks import check_durability
from .durability.next_failure import blocking_failures, can_place
from .protection.hardening import check_hardening
from .security_checks import (
    check_secret_files,
    check_security,
    check_store_passwords,
    listening,
)
from .server_checks import (
    FAULT,
    OK,
    WARNING,
    Finding,
    check_bookies,
    check_hosts,
    check_proxies,
    check_regions,
    check_repair,
)

_FAILURES_SHOWN = 4
_STREAMS_MAX = 1000
"""Number of streams of each namespace that are examined for data that should be gone."""
_LATE_MS = 600_000
"""A warning follows when data is overdue by more than its grace period and this time, because a
segment may wait for the grace period of an earlier one."""


class _Overdue(NamedTuple):
    """The data of a stream that is overdue for deletion."""

    is_late: bool
    """True if it has been overdue for too long."""
    overdue_ms: int
    stream: str
    data: OverdueData


@click.command()
@prints(
    rows(
        record(
            {
                "check": text("What was checked."),
                "verdict": text("The result.", OK, WARNING, FAULT),
                "detail": text("What was found."),
            }
        )
    )
)
@session_options
@runs
async def doctor(session: CommandSession) -> None:
    """Check settings, stores, regions, bookies, proxies, TLS, repair, namespaces and old data.

    It also says what one more failure would do. Exits with 1 while there is a fault, which
    needs action. A warning does not: it is tolerated, or follows from an operator's command.
    """
    findings = [Finding("settings", OK, str(session.loaded.file or "no file"))]
    findings += check_secret_files(session.settings)
    findings += check_store_passwords(session.settings)
    progress = ProgressBar()
    try:
        async with session.client(moves_data=False) as client:
            progress.show("asking the servers, and reading the metadata of all ledgers")
            store = f"{client.store.uri}, instance {client.instance_id}"
            findings.append(Finding("metadata store", OK, store))
            findings.append(await _region(client))
            findings += [finding async for finding in _regional_stores(client)]
            bookies = await read_bookies(client.store, client.directory)
            servers = await list_servers(client.store)
            ordered = (await client.directory.states.read()).regions
            findings += check_regions(bookies, ordered)
            findings += check_hosts(bookies)
            findings += await check_bookies(bookies, client.region)
            proxies = await read_proxies(client.store)
            findings += check_proxies(proxies)
            addresses = listening(bookies, proxies, servers, client.region)
            findings += await check_security(session.protection, addresses)
            quotas = await QuotaStore(client.store).read()
            hosts = {host for host, _ in addresses}
            findings += check_hardening(session.settings, quotas, proxies, hosts)
            findings += [finding async for finding in check_repair(client, bookies, servers)]
            findings += [finding async for finding in _namespaces(client)]
            findings += [finding async for finding in check_durability(client)]
            findings.append(await check_retention(client, bool(session.settings.cluster.cold)))
    except RhumblineError as error:
        findings.append(Finding("cluster", FAULT, str(error)))
    finally:
        progress.clear()
    found = [
        {"check": finding.subject, "verdict": finding.verdict, "detail": finding.detail}
        for finding in findings
    ]
    print_rows(found, session.output, empty="nothing was checked")
    if any(finding.verdict == FAULT for finding in findings):
        sys.exit(1)


async def _regional_stores(client: Client) -> AsyncIterator[Finding]:
    """Check the metadata stores of the regions, and that their bookies are registered there."""
    directory = client.directory
    writable = {bookie: await directory.region_of(bookie) for bookie in await directory.writable()}
    configured = client.regional_regions
    for region in await read_regional_stores(client.store):
        if region not in configured:
            detail = "is not in cluster.regional_metadata: its namespaces cannot be used from here"
            yield Finding(f"metadata store of {region}", WARNING, detail)
    for region in configured:
        subject = f"metadata store of {region}"
        try:
            store = await client.namespaces.store_of(region)
            registered = await store.directory.writable()
        except RhumblineError as error:
            yield Finding(subject, FAULT, str(error))
            continue
        missing = [b for b, of in writable.items() if of == region and b not in registered]
        if missing:
            detail = f"{store.store.uri}: not registered there, restart with its setting: "
            yield Finding(subject, WARNING, detail + ", ".join(missing))
        else:
            yield Finding(subject, OK, f"{store.store.uri}, {len(registered)} bookies")


async def _region(client: Client) -> Finding:
    try:
        await client.check_region()
    except ConfigurationError as error:
        return Finding("region", FAULT, str(error))
    return Finding("region", OK, client.region or "not set, and not required")


async def _namespaces(client: Client) -> AsyncIterator[Finding]:
    names = [name async for name, _ in client.namespaces.all()]
    if not names:
        yield Finding("namespaces", WARNING, "none exists; see `rhumbline namespace create`")
    for name in names:
        try:
            store = await client.namespaces.find(name)
            policy = await client.namespace_of(store, name).policy()
        except (ConfigurationError, NoSuchNamespaceError, UnavailableError) as error:
            yield Finding(f"namespace {name}", WARNING, f"cannot be examined: {error}")
        else:
            yield await _check_writable(client, store, name, policy)


async def _check_writable(
    client: Client, store: StoreClient, name: str, policy: StreamPolicy
) -> Finding:
    """Check that a new segment could be created now, and after one more failure."""
    candidates = await store.directory.snapshot()
    subject, random = f"namespace {name}", client.runtime.random
    obstacle = can_place(policy, candidates, random=random, near=client.region)
    if obstacle is not None:
        return Finding(subject, FAULT, f"cannot be written: {obstacle}")
    blocking = blocking_failures(policy, candidates)
    if not blocking:
        after = "new segments survive the loss of any region, host or bookie"
        return Finding(subject, OK, f"{policy.quorum} can be written; {after}")
    shown = ", ".join(blocking[:_FAILURES_SHOWN])
    if len(blocking) > _FAILURES_SHOWN:
        shown += f" or {len(blocking) - _FAILURES_SHOWN} more"
    detail = f"{policy.quorum} can be written; no new segments after the loss of {shown}"
    return Finding(subject, WARNING, detail)


async def check_retention(client: Client, has_cold_store: bool) -> Finding:
    """Check that old data is deleted: a process does it, and nothing is overdue for long."""
    wanting, with_archive, found, is_partial = 0, 0, list[_Overdue](), False
    stores = {"global": client.global_store}
    async for name, region in client.namespaces.all():
        try:
            store = await client.namespaces.store_of(region)
            namespace = client.namespace_of(store, name)
            default = await namespace.policy()
        except (ConfigurationError, NoSuchNamespaceError, UnavailableError):
            is_partial = True  # why is reported above
            continue
        stores[region or "global"] = store
        streams = await namespace.streams(limit=_STREAMS_MAX + 1)
        is_partial |= len(streams) > _STREAMS_MAX
        for stream in streams[:_STREAMS_MAX]:
            try:
                policy = await own_policy(store.store, name, stream) or default
                overdue = await namespace.find_overdue(stream)
            except NoSuchStreamError:
                continue  # deleted meanwhile
            wanting += policy.wants_retention
            with_archive += policy.needs_archive_for_retention
            if overdue is not None:
                is_late = overdue.overdue_ms > policy.purge_grace_ms + _LATE_MS
                found.append(_Overdue(is_late, overdue.overdue_ms, f"{name}/{stream}", overdue))
    detail = f"{show_count(wanting, 'stream wants', 'streams want')} old data deleted; "
    detail += _describe_overdue(found, is_partial=is_partial)
    is_late = any(one.is_late for one in found)
    for where, store in stores.items() if wanting or found else ():
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
    return Finding("retention", WARNING if is_late else OK, detail)


def _describe_overdue(found: Sequence[_Overdue], *, is_partial: bool) -> str:
    """Describe the data that is overdue for longest, of a stream that is late if there is one."""
    if not found:
        among = " among those examined; others were not" if is_partial else ""
        return f"none is overdue{among}"
    first = max(found, key=lambda one: (one.is_late, one.overdue_ms))
    others = "; others were not examined" if is_partial else ""
    return (
        f"data that should be gone is {show_ms(first.overdue_ms)} overdue: {first.stream}, "
        f"segment {first.data.lssn}, by {first.data.reason}{others}"
    )
