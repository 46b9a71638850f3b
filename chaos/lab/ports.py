"""Ports for servers that must know theirs before they start, and start on it again."""

import socket
from pathlib import Path
from random import SystemRandom

_FIRST = 10_000
_GIVEN_BY_ITSELF = Path("/proc/sys/net/ipv4/ip_local_port_range")
_GIVEN_FROM = 32_768  # the range's start where it cannot be read
_TRIES = 1_000


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now.

    It is below those that the system gives to outgoing connections: one of them could take it
    before its server starts, or while its server is down. Raises OSError when there is none.
    """
    try:
        first_given = int(_GIVEN_BY_ITSELF.read_text().split()[0])
    except OSError:
        first_given = _GIVEN_FROM
    if first_given <= _FIRST:
        return _bound(0)
    random = SystemRandom()
    for _ in range(_TRIES):
        try:
            return _bound(random.randrange(_FIRST, first_given))
        except OSError:
            continue
    raise OSError(f"no free port between {_FIRST} and {first_given}")


def _bound(port: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        bound: int = probe.getsockname()[1]
        return bound
