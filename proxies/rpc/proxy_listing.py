"""The list of registered proxies as clients get it (rule PRX-50)."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...core.protocol.errors import ProtocolError
from ..membership import READ, WRITE, ProxyMembership
from ..registration import ProxyMember
from . import rhumbline_pb2 as pb


class ProxyLoad(NamedTuple):
    """The load that a proxy has published."""

    permille: int
    """CPU time of the process in thousandths of a core; its event loop can use 1000."""
    streams: int
    """Number of streams that it serves to producers."""


LoadOf = Callable[[ProxyMember], ProxyLoad | None]


def unknown_load(_: ProxyMember) -> ProxyLoad | None:
    """Return None: no load is published."""
    return None


class ListedProxy(NamedTuple):
    """A proxy in the list of a client."""

    member: ProxyMember
    connect_address: str
    """The host:port to which this client connects."""
    roles: frozenset[str]
    load: ProxyLoad | None = None


def encode_proxies(
    memberships: Iterable[ProxyMembership], viewer_region: str, load_of: LoadOf = unknown_load
) -> pb.ListProxiesResponse:
    """Encode the proxies that are registered in any of the stores, for a client of a region."""
    members: dict[str, ProxyMember] = {}
    roles: dict[str, list[str]] = {}
    own_region = ""
    for membership in memberships:
        own_region = membership.own_member.region
        for role in (WRITE, READ):
            for member in membership.members(role):
                members[member.address] = member
                if role not in roles.setdefault(member.address, []):
                    roles[member.address].append(role)
    response = pb.ListProxiesResponse(region=own_region)
    for address, member in sorted(members.items()):
        proxy = response.proxies.add(
            address=address,
            connect_address=member.address_for(viewer_region or own_region),
            region=member.region,
            roles=roles[address],
            is_accepting=member.is_accepting,
            version=member.version,
            operator_address=member.operator_address,
        )
        load = load_of(member)
        if load is not None:
            proxy.load_permille, proxy.stream_count = load
    return response


def decode_proxies(response: pb.ListProxiesResponse) -> Sequence[ListedProxy]:
    """Decode a list. Raises ProtocolError for a proxy without an address."""
    found = []
    for proxy in response.proxies:
        if not proxy.address or not proxy.connect_address:
            raise ProtocolError("a listed proxy has no address")
        member = ProxyMember(
            "",
            proxy.address,
            proxy.region,
            proxy.is_accepting,
            version=proxy.version,
            operator_address=proxy.operator_address,
        )
        load = None
        if proxy.HasField("load_permille"):
            load = ProxyLoad(proxy.load_permille, proxy.stream_count)
        found.append(ListedProxy(member, proxy.connect_address, frozenset(proxy.roles), load))
    return found
