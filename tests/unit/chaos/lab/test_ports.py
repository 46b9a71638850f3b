"""A server's port lies outside the ephemeral range, so no outgoing connection can take it."""

import socket
from pathlib import Path

from rhumbline.chaos.lab.ports import free_port


def test_ports_are_free_and_below_the_ephemeral_range() -> None:
    ephemeral_start = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(20):
        port = free_port()
        assert 10_000 <= port < ephemeral_start
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))
            server.listen()


def test_no_port_is_returned_twice() -> None:
    """A world chooses the ports of all its servers before it starts the first one."""
    ports = [free_port() for _ in range(400)]
    assert len(set(ports)) == len(ports)
