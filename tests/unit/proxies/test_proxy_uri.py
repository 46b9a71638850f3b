"""URIs and addresses of proxies are parsed, and mistakes in them are named."""

import pytest

from rhumbline.core.protocol.errors import ConfigurationError, InvalidArgumentError
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.proxy_uri import ProxyUri, is_proxy_uri, parse_advertised, parse_proxies


@pytest.mark.parametrize(
    ("uri", "names", "is_srv"),
    [
        ("grpc://a:1", ("a:1",), False),
        ("grpc://a:1,[::1]:2,a:1/", ("a:1", "[::1]:2"), False),
        ("grpc+srv://_rhumbline._tcp.example.com", ("_rhumbline._tcp.example.com",), True),
        ("grpc+srv://east.example.,west.example", ("east.example.", "west.example"), True),
    ],
)
def test_names_of_a_uri(uri: str, names: tuple[str, ...], is_srv: bool) -> None:
    assert is_proxy_uri(uri)
    assert parse_proxies(uri) == ProxyUri(names, is_srv)


@pytest.mark.parametrize(
    "uri",
    ["grpc://", "grpc://a", "grpc://a:1,", "grpc://a:b", "grpc+srv://", "grpc+srv://a.b:1", "a:1"],
)
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="is not grpc://host:port"):
        parse_proxies(uri)


def test_advertised_addresses_by_region() -> None:
    assert parse_advertised(()) == ("", ())
    given = ("near:1", "west=far:8", "north=far:9")
    assert parse_advertised(given) == ("near:1", (("north", "far:9"), ("west", "far:8")))


@pytest.mark.parametrize(
    "given", [("near",), ("=near:1",), ("a:1", "b:1"), ("west=a:1", "west=b:1"), ("we st=a:1",)]
)
def test_wrong_advertised_addresses_are_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_advertised(given)


def test_settings_check_the_addresses() -> None:
    with pytest.raises(InvalidArgumentError, match="host:port"):
        ProxyConfig(advertised_addresses=(("west", "far"),))
