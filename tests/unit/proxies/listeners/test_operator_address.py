"""A proxy publishes an address at which operators reach it and no other one."""

import pytest

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.proxies.config import ProxyConfig
from rhumbline.proxies.listeners.operator_address import published_address


@pytest.mark.parametrize(
    ("operator_host", "operator_address", "host", "address", "published"),
    [
        ("", "", "127.0.0.1", "127.0.0.1:4281", "127.0.0.1:4291"),
        ("", "", "0.0.0.0", "proxy-1.example.com:4281", "proxy-1.example.com:4291"),
        ("10.9.0.1", "", "10.9.0.1", "proxy-1.example.com:4281", "10.9.0.1:4291"),
        ("0.0.0.0", "", "0.0.0.0", "proxy-1.example.com:4281", "proxy-1.example.com:4291"),
        ("::", "", "::", "[fd00::1]:4281", "[fd00::1]:4291"),
        ("127.0.0.1", "bastion:9", "127.0.0.1", "proxy-1.example.com:4281", "bastion:9"),
    ],
)
def test_the_address_is_derived_unless_it_is_set(
    operator_host: str, operator_address: str, host: str, address: str, published: str
) -> None:
    config = ProxyConfig(
        operator_port=4291, operator_host=operator_host, operator_address=operator_address
    )
    assert published_address(config, host, address, 4291) == published


@pytest.mark.parametrize(
    ("operator_host", "address"),
    [("127.0.0.1", "proxy-1.example.com:4281"), ("0.0.0.0", "127.0.0.1:4281")],
)
def test_an_address_that_leads_others_to_themselves_is_not_published(
    operator_host: str, address: str
) -> None:
    """An operator elsewhere would drain the proxy of the own machine instead."""
    config = ProxyConfig(operator_port=4291, operator_host=operator_host)
    with pytest.raises(ConfigurationError, match=r"set proxy\.operator_address"):
        published_address(config, operator_host, address, 4291)


def test_a_host_needs_a_port() -> None:
    with pytest.raises(ConfigurationError, match="operator_port"):
        ProxyConfig(operator_host="10.9.0.1")
    with pytest.raises(ConfigurationError, match="operator_port"):
        ProxyConfig(operator_address="proxy-1.example.com:4291")
