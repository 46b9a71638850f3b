"""Addresses of proxies from DNS: names with several addresses, and SRV records."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from ....core.protocol.errors import UnavailableError
from ....core.protocol.installation import needs_extra
from ...proxy_uri import join_address, split_address

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

_SECONDS_MAX = 3.0
"""Maximum time of one lookup."""


class DnsNames:
    """A ``SeedResolver`` that asks the system, or one DNS server."""

    def __init__(self, random: Random, dns_server: str = "") -> None:
        """``dns_server`` is host:port of the server to ask; "": the system's.

        Raises ConfigurationError if that needs a package that is not installed.
        """
        self._random = random
        self._dns_server = dns_server
        self._resolver = _open_resolver(dns_server) if dns_server else None

    async def addresses_of(self, name: str) -> Sequence[str]:
        """See ``SeedResolver.addresses_of``."""
        host, port = split_address(name)
        return [join_address(found, port) for found in await self._hosts(host)]

    async def addresses_of_service(self, name: str) -> Sequence[str]:
        """See ``SeedResolver.addresses_of_service``."""
        if self._resolver is None:
            self._resolver = _open_resolver("")
        servers = [
            SrvServer(record.priority, record.weight, record.target.to_text(), record.port)
            for record in await _lookup(self._resolver, name, "SRV")
        ]
        found: dict[str, None] = {}
        for server in srv_order(servers, self._random):
            for host in await self._hosts(server.host.rstrip(".")):
                found[join_address(host, server.port)] = None
        return tuple(found)

    async def _hosts(self, host: str) -> list[str]:
        if _is_address(host):
            return [host]
        if self._dns_server:
            assert self._resolver is not None
            records = await _lookup(self._resolver, host, "A")
            return [record.address for record in records]
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_SECONDS_MAX):
                found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            raise UnavailableError(f"{host} cannot be resolved: {error}") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


class SrvServer(NamedTuple):
    """A server in an SRV record."""

    priority: int
    weight: int
    host: str
    port: int


def srv_order(servers: Sequence[SrvServer], random: Random) -> list[SrvServer]:
    """Return servers by rising priority; within one, at random by their weights (RFC 2782)."""

    def rank(server: SrvServer) -> tuple[int, float]:
        # The largest of u^(1/w) is server i with a probability proportional to its weight.
        return server.priority, -(random.random() ** (1 / max(server.weight, 0.01)))

    return sorted(servers, key=rank)


def _open_resolver(dns_server: str) -> "Resolver":
    with needs_extra("a lookup of SRV records, or with the setting dns_server,", "dns"):
        from dns.asyncresolver import Resolver
        from dns.exception import DNSException
    try:
        resolver = Resolver(configure=not dns_server)
    except DNSException as error:
        raise UnavailableError(f"the system's DNS servers are not known: {error}") from error
    if dns_server:
        host, resolver.port = split_address(dns_server)
        resolver.nameservers = [host]
    resolver.lifetime = _SECONDS_MAX
    return resolver


async def _lookup(resolver: "Resolver", name: str, kind: str) -> list[Any]:
    from dns.exception import DNSException

    try:
        return list(await resolver.resolve(name, kind, search=False))
    except DNSException as error:
        raise UnavailableError(f"{name}: no {kind} records: {error}") from error


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
