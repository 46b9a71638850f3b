"""``rhumbline stream home``: the home region of a stream, and the one that it should have."""

from typing import TYPE_CHECKING, Any

import click

from ...client.connect import connect_proxies
from ...core.protocol.errors import InvalidArgumentError
from ...proxies.client.discovery.config import DiscoveryConfig
from ...proxies.write.claims import Claims
from ..options import CommandSession, runs, session_options
from ..output import TABLE, print_done, print_record
from ..output_schema import integer, listing, maybe, number, prints, record, text
from ..streams.describing import read_ownership

if TYPE_CHECKING:
    from ...proxies.rpc import rhumbline_pb2 as pb

_WRITER = record(
    {
        "region": maybe(text("Region of the clients; null: they did not name it.")),
        "records_per_second": number("Rate at which they append."),
        "share_percent": number("Their share of all records."),
        "wan_round_trips": maybe(
            integer("Round trips between regions from client to owner, for each append.")
        ),
        "wan_round_trips_if_moved": maybe(
            integer("The same with the suggested home region; null: nothing is suggested.")
        ),
    }
)
_HOME = record(
    {
        "stream": text("Name of the stream."),
        "home_region": maybe(text("Region whose proxies should serve it; null: not set.")),
        "owner": maybe(text("Address of the write proxy that serves it; null if none does.")),
        "owner_region": maybe(text("Region of that proxy.")),
        "writers": listing(_WRITER, "Regions that write it, with --suggest; the fastest first."),
        "observed_ms": maybe(integer("Time over which the owner counted.")),
        "suggested_region": maybe(text("The region that should be the home; null: no change.")),
        "reason": maybe(text("Why, or why not.")),
        "message": maybe(text("The change that was made; null: none.")),
    }
)


@click.command()
@click.argument("name")
@click.argument("home_region", required=False)
@click.option(
    "--suggest",
    is_flag=True,
    help="Ask the owner which regions write the stream, and which should be its home.",
)
@prints(_HOME)
@session_options
@runs
async def home(session: CommandSession, name: str, home_region: str | None, suggest: bool) -> None:
    """Show the home region of a stream, or set it to HOME_REGION.

    The write proxies of the home region serve the stream. A client of another region pays one more
    round trip between the regions for each append. An owner in another region releases the
    stream at its second check after this (proxy.balance_ms), if a proxy of the home region accepts
    streams.
    """
    if home_region is not None and suggest:
        raise InvalidArgumentError("HOME_REGION and --suggest are mutually exclusive")
    async with session.client(moves_data=False) as client:
        await client.namespace().describe(name)
        if home_region is not None:
            namespace = client.namespace()
            await Claims(namespace.store).set_home(namespace.name, name, home_region)
        shown: dict[str, Any] = {
            "stream": name,
            **_placed(await read_ownership(client, name)),
            "writers": [],
            "observed_ms": None,
            "suggested_region": None,
            "reason": None,
            "message": None,
        }
    if home_region is not None:
        message = f"the home region of stream {name} is {home_region}"
        print_done(shown, session.output, message)
        return
    if suggest:
        shown |= await _suggestion(session, name, shown["owner"])
    print_record(_for_people(shown) if session.output == TABLE else shown, session.output)


def _placed(ownership: dict[str, Any]) -> dict[str, Any]:
    return {name: ownership[name] for name in ("home_region", "owner", "owner_region")}


async def _suggestion(session: CommandSession, name: str, owner: str | None) -> dict[str, Any]:
    if owner is None:
        return {"reason": "no proxy owns the stream: nothing was appended through one lately"}
    from ...proxies.rpc import methods
    from ...proxies.rpc import rhumbline_pb2 as pb

    request = pb.DescribeHomeRequest(namespace=session.settings.cluster.namespace, stream=name)
    only_this = DiscoveryConfig(refresh_ms=0)
    credentials = session.protection.connecting
    async with connect_proxies(
        f"grpc://{owner}", discovery=only_this, credentials=credentials, token=session.token()
    ) as caller:
        found = await caller.call(methods.DESCRIBE_HOME, request, pb.DescribeHomeResponse)
    return {
        "home_region": found.home_region or None,
        "owner": found.owner,
        "owner_region": found.owner_region or None,
        "writers": _writers(found),
        "observed_ms": found.observed_ms,
        "suggested_region": found.suggested_region or None,
        "reason": found.reason,
    }


def _writers(found: "pb.DescribeHomeResponse") -> list[dict[str, Any]]:
    total = sum(rate.records_per_s for rate in found.rates) or 1.0

    def round_trips(region: str, owner_region: str) -> int | None:
        return int(region != owner_region) if region and owner_region else None

    return [
        {
            "region": rate.region or None,
            "records_per_second": round(rate.records_per_s, 2),
            "share_percent": round(100 * rate.records_per_s / total, 1),
            "wan_round_trips": round_trips(rate.region, found.owner_region),
            "wan_round_trips_if_moved": round_trips(rate.region, found.suggested_region),
        }
        for rate in found.rates
    ]


def _for_people(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a home without what is not known, and each region that writes in a line."""
    lines = {}
    for one in shown["writers"]:
        now, moved = one["wan_round_trips"], one["wan_round_trips_if_moved"]
        cost = "" if now is None else f", {now} round trip{'' if now == 1 else 's'} to the owner"
        cost += "" if moved is None else f", {moved} if moved"
        lines[f"from {one['region'] or 'unknown regions'}"] = (
            f"{one['records_per_second']} records/s, {one['share_percent']}%{cost}"
        )
    placed = {name: shown[name] for name in ("stream", "home_region", "owner", "owner_region")}
    if shown["reason"] is None:
        return placed
    decided = {name: shown[name] for name in ("observed_ms", "suggested_region", "reason")}
    return {**placed, **lines, **decided}
