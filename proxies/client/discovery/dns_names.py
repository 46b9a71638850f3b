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

    def __init__(
        self, random: Random, dns_server: str = "", *, finds_services: bool = False
    ) -> None:
        """``dns_server`` is host:port of the server to call; "": the system's.

        ``finds_services``: SRV records will be looked up. Raises ConfigurationError if that, or
        ``dns_server``, needs a package that is not installed.
        """
        self._random = random
        self._dns_server = dns_server
        self._resolver: Resolver | None = None
        if dns_server or finds_services:
            _import_dns()

    async def addresses_of(self, name: str) -> Sequence[str]:
        """See ``SeedResolver.addresses_of``."""
        host, port = split_address(name)
        return [join_address(found, port) for found in await self._hosts(host)]

    async def addresses_of_service(self, name: str) -> Sequence[str]:
        """See ``SeedResolver.addresses_of_service``."""
        resolver = await self._open_resolver()
        servers = [
            SrvServer(record.priority, record.weight, record.target.to_text(), record.port)
            for record in await _lookup(resolver, name, "SRV")
        ]
        found: dict[str, None] = {}
        for server in srv_order(servers, self._random):
            for host in await self._hosts(server.host.rstrip(".")):
                found[join_address(host, server.port)] = None
        return tuple(found)

    async def _hosts(self, host: str) -> list[str]:
        if _is_address(host):
            return [host]
        if not self._dns_server:
            return await _system_addresses(host)
        resolver = await self._open_resolver()
        found = await asyncio.gather(
            *(_lookup(resolver, host, kind) for kind in ("A", "AAAA")), return_exceptions=True
        )
        hosts: list[str] = []
        for records in found:
            if not isinstance(records, BaseException):
                hosts += [record.address for record in records]
            elif not isinstance(records, UnavailableError):
                raise records
        if not hosts:
            raise UnavailableError(f"{host}: no A or AAAA records: {found[0]}; {found[1]}")
        return hosts

    async def _open_resolver(self) -> "Resolver":
        """Return the resolver; the name of the DNS server is resolved by the system each time that
        the server has not been found before."""
        if self._resolver is None:
            resolver = _new_resolver(is_systems=not self._dns_server)
            if self._dns_server:
                host, resolver.port = split_address(self._dns_server)
                found = [host] if _is_address(host) else await _system_addresses(host)
                resolver.nameservers = list(found)
            self._resolver = resolver
        return self._resolver


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


def _import_dns() -> None:
    """Raise ConfigurationError if the package that resolves SRV records is not installed."""
    with needs_extra("a lookup of SRV records, or with the setting dns_server,", "dns"):
        import dns.asyncresolver  # noqa: F401


def _new_resolver(*, is_systems: bool) -> "Resolver":
    _import_dns()
    from dns.asyncresolver import Resolver
    from dns.exception import DNSException

    try:
        resolver = Resolver(configure=is_systems)
    except DNSException as error:
        raise UnavailableError(f"the system's DNS servers are not known: {error}") from error
    resolver.lifetime = _SECONDS_MAX
    return resolver


async def _system_addresses(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise UnavailableError(f"{host} cannot be resolved: {error}") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


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
