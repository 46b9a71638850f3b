"""A server refuses an address that no client can use, and notices one that most cannot."""

import socket

import pytest

from rhumbline.core.protocol.errors import ConfigurationError
from rhumbline.server.listening_address import (
    check_advertised,
    loopback_in_shared_store,
    published_host,
    warn_of_loopback,
)
from rhumbline.tests.support.fakes.recorded_log import recorded_log


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_wildcard_needs_an_advertised_address(host: str) -> None:
    for nothing in (None, ""):
        with pytest.raises(ConfigurationError, match=r"listens on all addresses.*: set it"):
            check_advertised(host, nothing, "set it")
    check_advertised(host, "bookie-1.example", "set it")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "bookie-1.example", "::1"])
def test_other_addresses_need_none(host: str) -> None:
    check_advertised(host, None, "set it")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_no_server_publishes_a_wildcard(host: str) -> None:
    """`doctor` asked 0.0.0.0, and so itself, for the state of each server in a container."""
    assert published_host(host, "bookie-1.example") == "bookie-1.example"
    assert published_host(host) == socket.gethostname()
    assert published_host("10.0.0.7", "bookie-1.example") == "10.0.0.7"


@pytest.mark.parametrize(
    ("address", "uri", "is_wrong"),
    [
        ("127.0.0.1", "zk://host:2181/", True),
        ("127.0.0.9", "etcd://host:2379/", True),
        ("localhost", "zk://host:2181/", True),
        ("[::1]", "zk://host:2181/", True),
        ("10.0.0.7", "zk://host:2181/", False),
        ("bookie-1.example", "zk://host:2181/", False),
        ("127.0.0.1", "sqlite:///data/metadata.db", False),
        ("127.0.0.1", "memory:", False),
    ],
)
def test_loopback_is_wrong_in_a_store_that_machines_share(
    address: str, uri: str, is_wrong: bool
) -> None:
    assert loopback_in_shared_store(address, uri) is is_wrong


def test_a_loopback_address_in_a_shared_store_is_logged() -> None:
    with recorded_log("rhumbline.server.listening_address") as log:
        warn_of_loopback("b1@00000001", "127.0.0.1", "sqlite:///data/metadata.db")
        warn_of_loopback("b1@00000001", "127.0.0.1", "zk://host:2181/")
    assert log.fields("loopback address shared") == [
        {"server": "b1@00000001", "address": "127.0.0.1", "uri": "zk://host:2181/"}
    ]
