"""The description of a stream: its metadata, its owner, and its present end."""

from collections.abc import Mapping
from typing import Any

from ...client.connect import Client
from ...client.units import show_ms
from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import MetadataUnavailableError
from ...proxies.balance.assignment_store import assignment_regions, read_table
from ...proxies.membership import WRITE, list_members
from ...proxies.registration import ProxyMember
from ...proxies.routing import Routing, stream_key
from ...proxies.write.claims import Claims
from ..output import iso_time
from ..output_schema import flag, integer, listing, maybe, record, table, text, time_at
from ..overview.streams import OPEN_SEGMENT, SUBSCRIPTION, read_lags, read_live_end
from .policy_documents import POLICY

DESCRIPTION = record(
    {
        "stream": text("Name of the stream."),
        "namespace": text("Namespace of the stream."),
        "start": text("DLSN of the first readable record."),
        "end": maybe(text("Position after the last readable record; null if not known.")),
        "is_ended": flag("True if the application ended the stream."),
        "is_sealed": flag("True if an operator refuses all writers."),
        "owner": maybe(text("Address of the write proxy that serves it; null if none does.")),
        "owner_region": maybe(text("Region of that proxy.")),
        "home_region": maybe(text("Region whose proxies should serve it.")),
        "preferred_owner": maybe(
            text("Address of the write proxy that should serve it; null if none accepts streams.")
        ),
        "is_pinned": flag("True if an operator pinned it to that proxy."),
        "viewer_region": maybe(text("Region of this client, for the round trips below.")),
        "owner_round_trips": maybe(
            integer("Round trips between regions from a client here to the owner, per append.")
        ),
        "commit_round_trips": integer("Round trips between regions from owner to bookies."),
        "truncated_segments": integer("Segments that are truncated and not purged yet."),
        "purge_begins_at": maybe(time_at("When truncated segments may be purged.")),
        "segments": integer("Log segments, truncated ones included."),
        "open_segments": listing(OPEN_SEGMENT, "Segments in progress."),
        "records": maybe(
            integer("Readable and truncated records; null if an open segment is not known.")
        ),
        "size_bytes": integer("Size of the completed segments."),
        "subscriptions": listing(record(SUBSCRIPTION), "Subscriptions with their lag."),
        "lag_records": maybe(integer("Lag of the slowest subscription; null: none, or unknown.")),
        "writer_sessions": integer("Claims by writers so far."),
        "metadata_age_ms": maybe(
            integer("Age of this information if the metadata store is out of reach.")
        ),
        "ends_decided_by_an_operator": table(text("The decision."), "By number of the segment."),
        "follows_namespace": flag("True if the policy is that of the namespace."),
        "policy": POLICY,
    }
)
"""The schema of ``stream describe``."""


async def describe_stream(client: Client, name: str) -> tuple[dict[str, Any], StreamPolicy]:
    """Return the description of a stream without its policy, and the policy."""
    namespace = client.namespace()
    known = await namespace.describe(name)
    end = await read_live_end(namespace, known)
    lags = await read_lags(namespace, known, end)
    behind = [row["lag_records"] for row in lags]
    done = [segment for segment in known.segments if segment.is_completed]
    shown = {
        "stream": name,
        "namespace": namespace.name,
        "start": str(known.start),
        "end": None if end.position is None else str(end.position),
        "is_ended": known.is_ended,
        "is_sealed": known.is_sealed,
        **await read_route(client, name, known.policy),
        "truncated_segments": sum(segment.lssn < known.start.lssn for segment in known.segments),
        "purge_begins_at": iso_time(known.grace_ends_ms),
        "segments": len(known.segments),
        "open_segments": _open_segments(known, end.open_records),
        "records": end.total_records(known),
        "size_bytes": sum(segment.length_bytes for segment in done),
        "subscriptions": lags,
        "lag_records": max(behind) if behind and None not in behind else None,
        "writer_sessions": known.epoch,
        "metadata_age_ms": known.metadata_age_ms,
        "ends_decided_by_an_operator": {
            str(segment.lssn): segment.doubt for segment in done if segment.doubt
        },
        "follows_namespace": known.follows_namespace,
    }
    return shown, known.policy


def for_people(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a description with its lists as text."""
    opened = [
        f"{one['segment']} (ledger {one['ledger']}): "
        + ("its bookies do not respond" if one["records"] is None else f"{one['records']} records")
        for one in shown["open_segments"]
    ]
    lags = [
        f"{one['subscription']} at {one['position']}: "
        + ("unknown" if one["lag_records"] is None else f"{one['lag_records']} records behind")
        + ("" if not one["behind_ms"] else f", the oldest {show_ms(one['behind_ms'])} old")
        for one in shown["subscriptions"]
    ]
    return {**shown, "open_segments": opened or None, "subscriptions": lags or None}


def _open_segments(
    known: StreamDescription, records: Mapping[int, int | None]
) -> list[dict[str, Any]]:
    return [
        {
            "segment": segment.lssn,
            "ledger": segment.ledger_id,
            "records": records[segment.lssn],
        }
        for segment in known.segments
        if not segment.is_completed
    ]


async def read_route(client: Client, name: str, policy: StreamPolicy) -> dict[str, Any]:
    """Return the ownership of a stream, and what an append through its owner costs from here.

    Without an owner the costs are those of the proxy that should serve the stream.
    """
    ownership = await read_ownership(client, name)
    best, is_pinned = await _preferred(client, name, ownership["home_region"] or "")
    served_in = ownership["owner_region"] or (None if best is None else best.region)
    here = client.region or None
    return {
        **ownership,
        "preferred_owner": None if best is None else best.address,
        "is_pinned": is_pinned,
        "viewer_region": here,
        "owner_round_trips": int(here != served_in) if here and served_in else None,
        "commit_round_trips": int(policy.quorum.min_regions > 1),
    }


async def _preferred(client: Client, name: str, home: str) -> tuple[ProxyMember | None, bool]:
    """Return the proxy that should serve a stream, and whether it is pinned there."""
    namespace = client.namespace()
    key = stream_key(namespace.name, name)
    try:
        members = await list_members(namespace.store, WRITE)
        regions = await assignment_regions(namespace.store)
        tables = {region: (await read_table(namespace.store, region)).table for region in regions}
    except MetadataUnavailableError:
        return None, False
    assigned = {region: table.addresses() for region, table in tables.items()}
    best = Routing(members, assigned).preferred(key, home)
    if best is None or best.region not in tables:
        return best, False
    return best, tables[best.region].pinned.get(key) == best.address


async def read_ownership(client: Client, name: str) -> dict[str, Any]:
    """Return owner, its region and the home region of a stream; None where not known."""
    namespace = client.namespace()
    claims = Claims(namespace.store)
    try:
        claim = await claims.owner(namespace.name, name)
        home = await claims.home(namespace.name, name)
        members = await list_members(namespace.store, WRITE)
    except MetadataUnavailableError:  # then the rest is old as well, as metadata_age_ms says
        return {"owner": None, "owner_region": None, "home_region": None}
    regions = {member.address: member.region for member in members}
    return {
        "owner": None if claim is None else claim.address,
        "owner_region": None if claim is None else regions.get(claim.address) or None,
        "home_region": home or None,
    }
