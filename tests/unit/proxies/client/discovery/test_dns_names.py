"""Names are resolved by a real DNS server on loopback, and by the system."""

import sys
from collections import Counter
from random import Random

import pytest

from rhumbline.core.protocol.errors import ConfigurationError, UnavailableError
from rhumbline.proxies.client.discovery import dns_names
from rhumbline.proxies.client.discovery.config import DiscoveryConfig
from rhumbline.proxies.client.discovery.dns_names import DnsNames, SrvServer, srv_order
from rhumbline.proxies.client.discovery.seeds import resolve_seeds
from rhumbline.proxies.proxy_uri import parse_proxies
from rhumbline.tests.support.servers.dns_server import dns_server

SERVICE = "_rhumbline._tcp.example.com"


async def test_name_with_several_addresses() -> None:
    async with dns_server() as server:
        names = DnsNames(Random(1), server.address)
        server.records["proxies.example.com", "A"] = ("10.0.0.1", "10.0.0.2")
        uri = parse_proxies("grpc://proxies.example.com:4281,10.0.0.9:1")
        found = await resolve_seeds(uri, names)
        assert set(found) == {"10.0.0.1:4281", "10.0.0.2:4281", "10.0.0.9:1"}
        server.records["proxies.example.com", "A"] = ("10.0.0.3",)
        assert await names.addresses_of("proxies.example.com:4281") == ["10.0.0.3:4281"]


async def test_srv_records_give_hosts_and_ports_by_priority() -> None:
    async with dns_server() as server:
        names = DnsNames(Random(1), server.address)
        server.records[SERVICE, "SRV"] = (
            "20 1 4283 far.example.com.",
            "10 1 4281 near.example.com.",
            "10 1 4282 near.example.com.",
        )
        server.records["near.example.com", "A"] = ("10.0.0.1",)
        server.records["far.example.com", "A"] = ("10.1.0.1", "10.1.0.2")
        found = await resolve_seeds(parse_proxies(f"grpc+srv://{SERVICE}"), names)
        assert set(found[:2]) == {"10.0.0.1:4281", "10.0.0.1:4282"}
        assert set(found[2:]) == {"10.1.0.1:4283", "10.1.0.2:4283"}


async def test_names_may_have_ipv6_addresses_only_or_both() -> None:
    async with dns_server() as server:
        names = DnsNames(Random(1), server.address)
        server.records["six.example.com", "AAAA"] = ("2001:db8::1",)
        server.records["both.example.com", "A"] = ("10.0.0.1",)
        server.records["both.example.com", "AAAA"] = ("2001:db8::2",)
        assert await names.addresses_of("six.example.com:1") == ["[2001:db8::1]:1"]
        assert await names.addresses_of("both.example.com:1") == [
            "10.0.0.1:1",
            "[2001:db8::2]:1",
        ]


async def test_dns_server_may_have_a_name() -> None:
    """Only its address was accepted; a name was a ValueError that ended the discovery."""
    async with dns_server() as server:
        port = server.address.rpartition(":")[2]
        names = DnsNames(Random(1), f"localhost:{port}")
        server.records["proxies.example.com", "A"] = ("10.0.0.1",)
        assert await names.addresses_of("proxies.example.com:1") == ["10.0.0.1:1"]
    names = DnsNames(Random(1), "nobody.invalid:53")
    with pytest.raises(UnavailableError, match=r"nobody\.invalid cannot be resolved"):
        await names.addresses_of("proxies.example.com:1")


@pytest.mark.parametrize("bad", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "[1.2:3]:53"])
def test_bad_dns_server_is_refused_by_the_setting(bad: str) -> None:
    with pytest.raises(ConfigurationError, match="dns_server"):
        DiscoveryConfig(dns_server=bad)


def test_missing_package_is_reported_when_the_client_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "dns.asyncresolver", None)
    with pytest.raises(ConfigurationError, match=r"rhumbline\[dns\]"):
        DnsNames(Random(1), "127.0.0.1:53")
    with pytest.raises(ConfigurationError, match=r"rhumbline\[dns\]"):
        DnsNames(Random(1), finds_services=True)


async def test_failed_lookups_are_unavailable_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_names, "_SECONDS_MAX", 0.2)
    async with dns_server() as server:
        names = DnsNames(Random(1), server.address)
        with pytest.raises(UnavailableError, match="no A or AAAA records"):
            await names.addresses_of("nobody.example.com:1")
        server.is_silent = True
        with pytest.raises(UnavailableError, match="no SRV records"):
            await names.addresses_of_service(SERVICE)


async def test_system_resolves_names_without_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dns.asyncresolver", None)
    names = DnsNames(Random(1))
    assert "127.0.0.1:4281" in await names.addresses_of("localhost:4281")
    assert await names.addresses_of("[::1]:4281") == ["[::1]:4281"]
    with pytest.raises(UnavailableError, match="cannot be resolved"):
        await names.addresses_of("nobody.invalid:1")
    with pytest.raises(ConfigurationError, match=r"rhumbline\[dns\]"):
        await names.addresses_of_service(SERVICE)


def test_servers_of_one_priority_are_chosen_by_weight() -> None:
    servers = [SrvServer(1, 3, "a", 1), SrvServer(1, 1, "b", 1), SrvServer(0, 0, "c", 1)]
    random = Random(1)
    orders = [srv_order(servers, random) for _ in range(2_000)]
    assert all(order[0].host == "c" for order in orders)
    second = Counter(order[1].host for order in orders)
    assert 2.5 < second["a"] / second["b"] < 3.6
