"""``rhumbline proxy``: balance, pin, unpin, assignments."""

from typing import Any

import click

from ...client.units import show_count
from ...core.protocol.errors import (
    InvalidArgumentError,
    NoSuchObjectError,
    UnavailableError,
)
from ...core.runtime.metadata_store import MetadataStore
from ...proxies.balance.assignment_store import (
    StoredTable,
    assignment_regions,
    change_table,
    read_reports,
    read_table,
    write_table,
)
from ...proxies.balance.balance_plan import MoveReason, imbalance
from ...proxies.balance.balance_rounds import BalanceRounds, RoundDecision
from ...proxies.balance.balancer import limits_of
from ...proxies.config import ProxyConfig
from ...proxies.membership import WRITE, list_members
from ...proxies.registration import ProxyMember
from ...proxies.routing import stream_key
from ..options import CommandSession, runs, session_options
from ..output import print_done, print_message, print_rows
from ..output_schema import done, flag, number, prints, record, rows, text

_MOVE = {
    "stream": text("Namespace and name of the stream."),
    "region": text("Region of both proxies."),
    "source": text("host:port of the present owner."),
    "target": text("host:port of the next one."),
    "reason": text(
        "load: the source exceeds the mean by the tolerance; strain: by half of it, and its "
        "CPU or its event loop is busy.",
        *(reason.value for reason in MoveReason),
    ),
    "load": number("Load of the stream: record sets per second, plus one for each 16 KiB/s."),
    "source_load": number("Load of the source before the move."),
    "target_load": number("Load of the target before the move."),
    "mean_load": number("Mean load of the write proxies of the region."),
}


@click.command()
@click.option("--plan", "plans_only", is_flag=True, help="Show what would move, and move nothing.")
@prints(rows(record(_MOVE)))
@session_options
@runs
async def balance(session: CommandSession, plans_only: bool) -> None:
    """Move streams to even the load of the write proxies of each region, one round of moves.

    The elected balancer does the same every `balance_ms` automatically.
    """
    moves: list[dict[str, Any]] = []
    async with session.client(moves_data=False) as client:
        store = client.namespace().store
        members = await list_members(store, WRITE)
        for region in sorted({member.region for member in members}):
            there = [member for member in members if member.region == region]
            decision, stored = await _decide(store, region, there, session.settings.proxy)
            if (
                not plans_only
                and decision.moves
                and not await write_table(store, region, stored, decision.table)
            ):
                raise UnavailableError("the assignments were changed meanwhile; run this again")
            for move in decision.moves:
                numbers = move._asdict() | {"stream": move.key, "region": region}
                moves.append({key: numbers[key] for key in _MOVE})
    print_rows(moves, session.output, empty="no stream should move")
    if moves:
        words = "would move" if plans_only else "are assigned to other proxies"
        print_message(f"{show_count(len(moves), 'stream')} {words}")


async def _decide(
    store: MetadataStore, region: str, members: list[ProxyMember], config: ProxyConfig
) -> tuple[RoundDecision, StoredTable]:
    """Return what the balancer of a region would decide now, and the assignments before."""
    ids = {member.id for member in members}
    found = await read_reports(store, region)
    reports = [stored.report for stored in found if stored.report.member_id in ids]
    stored = await read_table(store, region)
    decision = BalanceRounds(limits_of(config)).decide(
        reports,
        stored.table,
        members={member.address for member in members},
        accepting={member.address for member in members if member.is_accepting},
    )
    if reports:
        ratio = imbalance(report.load for report in reports)
        print_message(
            f"{f'region {region}: ' if region else ''}"
            f"{show_count(len(reports), 'write proxy', 'write proxies')}, "
            f"the highest load is {ratio:.2f} times the mean"
        )
    return decision, stored


@click.command()
@click.argument("stream")
@click.argument("address")
@prints(
    done(
        {
            "stream": text("Name of the stream."),
            "address": text("host:port of the proxy."),
            "region": text("Region of the proxy."),
        }
    )
)
@session_options
@runs
async def pin(session: CommandSession, stream: str, address: str) -> None:
    """Pin a stream to a write proxy of its home region; it moves there, and is not balanced.

    While the proxy is lost or drains, another one serves the stream.
    """
    from ...proxies.write.claims import Claims

    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        await namespace.describe(stream)
        members = await list_members(namespace.store, WRITE)
        member = next((one for one in members if one.address == address), None)
        if member is None:
            raise InvalidArgumentError(
                f"no write proxy is up at {address}; see `rhumbline proxy ls`"
            )
        home = await Claims(namespace.store).home(namespace.name, stream)
        if not home and len({one.region for one in members}) > 1:
            raise InvalidArgumentError(
                f"{stream} has no home region, so any region may serve it; set it with `rhumbline "
                f"stream home {stream} {member.region}`"
            )
        if home and home != member.region:
            raise InvalidArgumentError(
                f"{address} is in region {member.region}, the home region of {stream} is {home}; "
                f"set it with `rhumbline stream home {stream} {member.region}`"
            )
        key = stream_key(namespace.name, stream)
        for region in await assignment_regions(namespace.store):
            if region != member.region:
                await change_table(namespace.store, region, lambda table: table.without(key))
        await change_table(
            namespace.store, member.region, lambda table: table.with_pin(key, address)
        )
    print_done(
        {"stream": stream, "address": address, "region": member.region},
        session.output,
        f"stream {stream} is pinned to {address}",
    )


@click.command()
@click.argument("stream")
@prints(
    done(
        {
            "stream": text("Name of the stream."),
            "address": text("host:port of the proxy to which it was pinned."),
        }
    )
)
@session_options
@runs
async def unpin(session: CommandSession, stream: str) -> None:
    """Unpin a stream. It stays at its proxy until the load requires a move."""
    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        key = stream_key(namespace.name, stream)
        address = ""
        for region in await assignment_regions(namespace.store):
            stored = await read_table(namespace.store, region)
            if key in stored.table.pinned:
                address = stored.table.pinned[key]
                await change_table(namespace.store, region, lambda table: table.without_pin(key))
    if not address:
        raise NoSuchObjectError(f"stream {stream} of namespace {namespace.name} is not pinned")
    print_done(
        {"stream": stream, "address": address},
        session.output,
        f"stream {stream} is no longer pinned to {address}",
    )


@click.command()
@prints(
    rows(
        record(
            {
                "stream": text("Namespace and name of the stream."),
                "region": text("Region of the proxy."),
                "address": text("host:port of the proxy that should serve it."),
                "is_pinned": flag("True if an operator pinned it."),
            }
        )
    )
)
@session_options
@runs
async def assignments(session: CommandSession) -> None:
    """List the streams that are pinned, or were moved because of the load."""
    found = []
    async with session.client(moves_data=False) as client:
        namespace = client.namespace()
        store = namespace.store
        for region in await assignment_regions(store):
            table = (await read_table(store, region)).table
            found += [
                {
                    "stream": key,
                    "region": region,
                    "address": address,
                    "is_pinned": key in table.pinned,
                }
                for key, address in sorted(table.addresses().items())
            ]
    nothing = f"no stream is pinned or moved in the metadata store of namespace {namespace.name}"
    print_rows(found, session.output, empty=nothing)


COMMANDS = (balance, pin, unpin, assignments)
