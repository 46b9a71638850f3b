"""The regions of bookies that do not record one themselves, from a file or from a script's output.

A file has a table ``regions``, from bookie ids, hosts or networks to regions. The script is one for
BookKeeper's setting ``networkTopologyScriptFileName``: its arguments are hosts, and it prints one
path such as ``/eu/rack7`` for each, whose first part is the region.
"""

import tomllib
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from ....core.protocol.bookie_id import BookieId, Region, check_region
from ....core.protocol.errors import ConfigurationError, InvalidArgumentError

_TABLE = "regions"
_PARTS_MIN = 2
"""A path with fewer parts, such as BookKeeper's default ``/default-rack``, names no region."""


class AdoptedBookie(NamedTuple):
    """A bookie that runs already."""

    bookie_id: BookieId
    host: str
    """Host that it registered or that its id names; "" if neither is known."""


class RegionMapping(NamedTuple):
    """Regions by name (id or host of a bookie) and by network."""

    by_name: Mapping[str, Region]
    by_network: Mapping[IPv4Network | IPv6Network, Region]

    def region_of(self, bookie: AdoptedBookie) -> Region | None:
        """Return the region of a bookie; None if the mapping does not contain it.

        Its id comes before its host, and its host before the smallest network that contains it.
        """
        for name in (str(bookie.bookie_id), bookie.host):
            if name in self.by_name:
                return self.by_name[name]
        try:
            address = ip_address(bookie.host)
        except ValueError:
            return None
        around = [network for network in self.by_network if address in network]
        return self.by_network[max(around, key=lambda one: one.prefixlen)] if around else None


def parse_mapping(text: str) -> RegionMapping:
    """Return the mapping of a file. Raises ConfigurationError."""
    try:
        table = tomllib.loads(text).get(_TABLE)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the mapping is not TOML: {error}") from error
    if not isinstance(table, dict) or not table:
        raise ConfigurationError(f"the mapping has no table [{_TABLE}] with entries")
    by_name: dict[str, Region] = {}
    by_network: dict[IPv4Network | IPv6Network, Region] = {}
    for name, region in table.items():
        if not isinstance(region, str):
            raise ConfigurationError(f"the region of {name} is not a string: {region!r:.80}")
        place = _region(region, name)
        try:
            by_network[ip_network(name)] = place
        except ValueError as error:
            if "/" in name:
                raise ConfigurationError(f"{name} is not a network: {error}") from error
        by_name[name] = place
    return RegionMapping(by_name, by_network)


def mapping_of_paths(hosts: Sequence[str], printed: str) -> RegionMapping:
    """Return the mapping of a script's output for ``hosts``. Raises ConfigurationError."""
    paths = printed.split()
    if len(paths) != len(hosts):
        raise ConfigurationError(
            f"the script printed {len(paths)} paths for {len(hosts)} hosts: {printed[:200]!r}"
        )
    found: dict[str, Region] = {}
    for host, path in zip(hosts, paths, strict=True):
        parts = path.strip("/").split("/")
        if not path.startswith("/") or len(parts) < _PARTS_MIN:
            raise ConfigurationError(
                f"the script printed {path[:80]!r} for {host}, which is not /region/rack"
            )
        found[host] = _region(parts[0], host)
    return RegionMapping(found, {})


def _region(text: str, name: str) -> Region:
    try:
        return check_region(text)
    except InvalidArgumentError as error:
        raise ConfigurationError(f"{name}: {error}") from error
