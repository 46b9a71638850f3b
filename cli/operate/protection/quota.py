"""``rhumbline quota``: set, remove and list quotas, and show what is used of them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from ....client.units import parse_bytes, show_count
from ....core.runtime.metadata_store import MetadataStore
from ....proxies.membership import list_members
from ....proxies.quotas.quota_store import QuotaStore
from ....security.quotas import LIMITS, Quota, Subject, SubjectKind, check_quota, parse_subject
from ....server.server_directory import list_servers
from ...options import CommandSession, runs, session_options
from ...output import print_done, print_message, print_rows
from ...output_schema import Schema, done, integer, maybe, prints, record, rows, text
from ...overview.proxies import ROLES
from ...overview.status_documents import parse_address, read_statuses

_MEANINGS = {
    "append_bytes_per_second": "Bytes appended per second.",
    "append_records_per_second": "Records appended per second.",
    "read_bytes_per_second": "Bytes read per second.",
    "streams": "Streams of the namespace.",
    "calls": "Open append and read calls of the principal, at each proxy.",
    "connections": "Connections of the principal with such calls, at each proxy.",
    "stored_bytes": "Payload bytes in closed ledgers of the namespace, by the last audit.",
}
_LIMIT_SCHEMAS: dict[str, Schema] = {
    name: maybe(integer(f"{meaning} null: no limit.")) for name, meaning in _MEANINGS.items()
}
_SUBJECT = text("principal:NAME, namespace:NAME or stream:NAMESPACE/STREAM; * stands for each.")
_COUNTERS = {
    "append_bytes": "Bytes appended since the proxies started.",
    "append_records": "Records appended since then.",
    "read_bytes": "Bytes read since then.",
    "refused": "Requests refused since then.",
}


@click.group()
def quota() -> None:
    """Limit principals, namespaces and streams, and show their usage.

    Proxies enforce quotas. A SUBJECT is principal:NAME, namespace:NAME or stream:NAMESPACE/STREAM;
    with * as its name, the quota is that of each one that has none of its own.
    """


@quota.command("set")
@click.argument("subject")
@click.option("--append-bytes", metavar="SIZE", help="Bytes appended per second, e.g. 10MiB.")
@click.option("--append-records", type=int, help="Records appended per second.")
@click.option("--read-bytes", metavar="SIZE", help="Bytes read per second.")
@click.option("--streams", type=int, help="Streams of a namespace.")
@click.option("--calls", type=int, help="Open append and read calls of a principal, at each proxy.")
@click.option(
    "--connections", type=int, help="Connections of a principal with such calls, at each proxy."
)
@click.option(
    "--stored-bytes",
    metavar="SIZE",
    help="Payload bytes that a namespace stores in closed ledgers, counted once for all copies.",
)
@prints(done({"subject": _SUBJECT, **_LIMIT_SCHEMAS}))
@session_options
@runs
async def set_(
    session: CommandSession,
    subject: str,
    append_bytes: str | None,
    append_records: int | None,
    read_bytes: str | None,
    streams: int | None,
    calls: int | None,
    connections: int | None,
    stored_bytes: str | None,
) -> None:
    """Set the quota of SUBJECT; it replaces an earlier one.

    The limits apply to the cluster as a whole. Proxies apply them within seconds.
    """
    named = parse_subject(subject)
    wanted = Quota(
        append_bytes_per_second=None if append_bytes is None else parse_bytes(append_bytes),
        append_records_per_second=append_records,
        read_bytes_per_second=None if read_bytes is None else parse_bytes(read_bytes),
        streams=streams,
        calls=calls,
        connections=connections,
        stored_bytes=None if stored_bytes is None else parse_bytes(stored_bytes),
    )
    check_quota(named, wanted)
    async with session.client(moves_data=False) as client:
        await QuotaStore(client.store).change(lambda table: table.with_quota(named, wanted))
        print_done(_row(named, wanted), session.output, f"the quota of {named} is set")


@quota.command()
@click.argument("subject")
@prints(done({"subject": _SUBJECT}))
@session_options
@runs
async def rm(session: CommandSession, subject: str) -> None:
    """Remove the quota of SUBJECT. Safe to repeat."""
    named = parse_subject(subject)
    async with session.client(moves_data=False) as client:
        await QuotaStore(client.store).change(lambda table: table.without(named))
        print_done({"subject": str(named)}, session.output, f"the quota of {named} is removed")


@quota.command()
@prints(rows(record({"subject": _SUBJECT, **_LIMIT_SCHEMAS})))
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """List the quotas of the cluster."""
    async with session.client(moves_data=False) as client:
        table = await QuotaStore(client.store).read()
        found = [_row(subject, limits) for subject, limits in table.items()]
        print_rows(found, session.output, empty="no quota is set")


@quota.command()
@prints(
    rows(
        record(
            {
                "subject": text(
                    "principal:NAME or namespace:NAME; the name `other` sums the rest."
                ),
                **{name: integer(meaning) for name, meaning in _COUNTERS.items()},
            }
        )
    )
)
@session_options
@runs
async def usage(session: CommandSession) -> None:
    """Show what principals and namespaces have used at the proxies that run now."""
    async with session.client(moves_data=False) as client:
        found, proxies, silent = await _read_usage(client.store)
        shown = [
            {"subject": str(subject), **{name: counts[name] for name in _COUNTERS}}
            for subject, counts in sorted(found.items())
        ]
        print_rows(shown, session.output, empty=_without_usage(proxies, silent))
        if 0 < silent < proxies:
            missing = show_count(silent, "proxy that does", "proxies that do")
            print_message(f"not included: {missing} not respond")


def _row(subject: Subject, limits: Quota) -> dict[str, Any]:
    return {"subject": str(subject), **{name: getattr(limits, name) for name in LIMITS}}


def _without_usage(proxies: int, silent: int) -> str:
    """Return what no usage means with this number of proxies, of which some do not respond."""
    if not proxies:
        return "no proxy is up"
    if silent == proxies:
        return "no proxy responds"
    return f"no proxy {'that responds ' if silent else ''}has served anything"


async def _read_usage(store: MetadataStore) -> tuple[dict[Subject, Counter[str]], int, int]:
    """Return the sums of all proxies that respond, the number of proxies, and of silent ones."""
    addresses = {member.address for role in ROLES for member in await list_members(store, role)}
    servers = {
        server.address: parse_address(server.status_address)
        for server in await list_servers(store)
        if server.address in addresses
    }
    sums: dict[Subject, Counter[str]] = {}
    known = [status for status in (await read_statuses(servers)).values() if status.is_known]
    for status in known:
        _add(sums, status.statistics.get("quotas") or {})
    return sums, len(addresses), len(addresses) - len(known)


def _add(sums: dict[Subject, Counter[str]], quotas: Mapping[str, Any]) -> None:
    for kind in (SubjectKind.PRINCIPAL, SubjectKind.NAMESPACE):
        for name, counts in (quotas.get(f"{kind}s") or {}).items():
            sums.setdefault(Subject(kind, name), Counter()).update(counts)
