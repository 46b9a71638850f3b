"""A server's port is not one that an outgoing connection may be given before the server starts."""

import socket
from pathlib import Path

from rhumbline.chaos.lab.ports import free_port


def test_ports_are_free_and_below_those_that_the_system_gives() -> None:
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(20):
        port = free_port()
        assert 10_000 <= port < given
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))
            server.listen()
