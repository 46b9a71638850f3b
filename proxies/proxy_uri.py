"""Addresses and URIs of proxies, without gRPC."""

import re
from ipaddress import IPv6Address
from typing import NamedTuple

from ..core.protocol.bookie_id import check_region
from ..core.protocol.errors import ConfigurationError, InvalidArgumentError

SCHEME = "grpc://"
SRV_SCHEME = "grpc+srv://"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.\-]+):(\d{1,5})")
_PORT_MAX = 65_535
_SERVICE = re.compile(r"[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)+\.?")


class ProxyUri(NamedTuple):
    """The names in a URI of proxies."""

    names: tuple[str, ...]
    """host:port each, or the names of SRV records."""
    is_srv: bool


def is_proxy_uri(uri: str) -> bool:
    """Return whether a URI names proxies; otherwise it names a metadata store."""
    return uri.startswith((SCHEME, SRV_SCHEME))


def parse_proxies(uri: str) -> ProxyUri:
    """Parse ``grpc://host:port,host:port`` or ``grpc+srv://name,name``.

    Raises ConfigurationError.
    """
    is_srv = uri.startswith(SRV_SCHEME)
    names = uri.removeprefix(SRV_SCHEME if is_srv else SCHEME).rstrip("/").split(",")
    pattern = _SERVICE if is_srv else _ADDRESS
    if not is_proxy_uri(uri) or not all(map(pattern.fullmatch, names)):
        raise ConfigurationError(
            f"{uri!r} is not {SCHEME}host:port[,host:port...], and not {SRV_SCHEME}name[,name...]"
        )
    return ProxyUri(tuple(dict.fromkeys(names)), is_srv)


def check_addresses(addresses: tuple[tuple[str, str], ...]) -> None:
    """Check pairs (region, host:port). Raises InvalidArgumentError."""
    for region, address in addresses:
        check_region(region)
        if not _ADDRESS.fullmatch(address):
            raise InvalidArgumentError(f"{region}: {address!r} is not host:port")


def parse_advertised(given: tuple[str, ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the general address, or "", and the pairs (region, host:port).

    Each text in ``given`` is ``host:port`` or ``region=host:port``. Raises ConfigurationError.
    """
    general = ""
    pairs: dict[str, str] = {}
    for text in given:
        region, is_pair, address = text.rpartition("=")
        if not _ADDRESS.fullmatch(address) or (is_pair and not region):
            raise ConfigurationError(f"{text!r} is not host:port, and not region=host:port")
        if region in pairs or (not is_pair and general):
            raise ConfigurationError(f"{text!r}: the address for these clients was given already")
        if is_pair:
            pairs[region] = address
        else:
            general = address
    found = tuple(sorted(pairs.items()))
    check_addresses(found)
    return general, found


def check_server(address: str) -> None:
    """Check the host:port of a server; empty: none. Raises InvalidArgumentError."""
    if not address:
        return
    if not _ADDRESS.fullmatch(address):
        raise InvalidArgumentError(f"{address!r} is not host:port")
    host, port = split_address(address)
    if not 0 < port <= _PORT_MAX:
        raise InvalidArgumentError(f"{address!r}: port {port} is not between 1 and {_PORT_MAX}")
    if "[" in address and not _is_ipv6(host):
        raise InvalidArgumentError(f"{address!r}: {host} is not an IPv6 address")


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_address(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
