"""Chooses ports for servers that need a fixed port, known before their first start."""

import socket
from pathlib import Path
from random import SystemRandom

_FIRST = 10_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_START = 32_768  # used if the range cannot be read
_TRIES = 1_000
_chosen: set[int] = set()
"""Ports that this process has returned already: their servers may not have started yet."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is currently free, another one with each call.

    The port lies below the ephemeral range, because an outgoing connection could take an ephemeral
    port before the server starts or while it is down. Raises OSError if no free port is found.
    """
    try:
        ephemeral_start = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except OSError:
        ephemeral_start = _EPHEMERAL_START
    if ephemeral_start <= _FIRST:
        return _bind(0)
    random = SystemRandom()
    for _ in range(_TRIES):
        port = random.randrange(_FIRST, ephemeral_start)
        if port in _chosen:
            continue
        try:
            _bind(port)
        except OSError:
            continue
        _chosen.add(port)
        return port
    raise OSError(f"no free port between {_FIRST} and {ephemeral_start}")


def _bind(port: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        bound: int = probe.getsockname()[1]
        return bound
