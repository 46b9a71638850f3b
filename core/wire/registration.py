"""Bookie registration: what a bookie publishes under its id while it is up.

The value is BookKeeper's BookieServiceInfoFormat: the first endpoint of protocol ``bookie-rpc`` is
where clients connect. An empty value is the legacy form: then the bookie id is its address. A value
that does not parse makes a Java client hang at start, so nothing else is ever written.

Properties of ours (a Java client ignores them): ``rack``, ``region`` (for people; quorums ask the
persistent region node), ``free_bytes``, ``holder`` (the lock that the process has),
``address.<region>`` = the ``host:port`` that viewers in that region should use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ..protocol.bookie_id import BookieId
from ..protocol.errors import CorruptionError
from ..runtime.metadata_store import VALUE_BYTES_MAX
from .formats_pb2 import BookieServiceInfoFormat
from .protobuf_parsing import parse

PROTOCOL = "bookie-rpc"
ENDPOINT_ID = "bookie"
PORT_MAX = 65535

RACK = "rack"
REGION = "region"
FREE_BYTES = "free_bytes"
HOLDER = "holder"
ADDRESS_PREFIX = "address."

_HOST_CHARACTERS_MAX = 253  # DNS


class BookieAddress(NamedTuple):
    """Where a bookie listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A bookie's id, its general address, and what else it says about itself."""

    bookie_id: BookieId
    host: str
    port: int
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> BookieAddress:
        """The general address."""
        return BookieAddress(self.host, self.port)

    @property
    def free_bytes(self) -> int:
        """Space that the bookie had left when it last said so; 0 if it never did."""
        text = self.properties.get(FREE_BYTES, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def parse_address(text: str) -> BookieAddress | None:
    """``host:port`` or ``[host]:port``; None for anything else."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return None
    return BookieAddress(host, int(port)) if _is_address(host, int(port)) else None


def encode(registration: Registration) -> bytes:
    """The value of a registration node. The same registration gives the same bytes."""
    assert _is_address(registration.host, registration.port)
    info = BookieServiceInfoFormat()
    info.endpoints.add(
        id=ENDPOINT_ID.encode(),
        port=registration.port,
        host=registration.host.encode(),
        protocol=PROTOCOL.encode(),
    )
    for key, value in sorted(registration.properties.items()):
        info.properties.add(key=key.encode(), value=value.encode())
    return info.SerializeToString()


def decode(bookie_id: BookieId, data: bytes) -> Registration:
    """Reads the value of a registration node, also the empty one. Raises CorruptionError."""
    if not data:
        address = parse_address(bookie_id)
        if address is None:
            raise CorruptionError(f"bookie {bookie_id} registered no address, and is none itself")
        return Registration(bookie_id, address.host, address.port)
    if len(data) > VALUE_BYTES_MAX:
        raise CorruptionError(f"bookie {bookie_id} registered {len(data)} bytes")
    try:
        return _decode(bookie_id, parse(BookieServiceInfoFormat, data))
    except (DecodeError, UnicodeDecodeError) as error:
        raise CorruptionError(f"the registration of bookie {bookie_id} does not parse") from error


def _decode(bookie_id: BookieId, info: BookieServiceInfoFormat) -> Registration:
    for endpoint in info.endpoints:
        if endpoint.protocol == PROTOCOL.encode():
            host = endpoint.host.decode()
            if not _is_address(host, endpoint.port):
                raise CorruptionError(
                    f"bookie {bookie_id} registered {host[:80]!r}:{endpoint.port}"
                )
            properties = {p.key.decode(): p.value.decode() for p in info.properties}
            return Registration(bookie_id, host, endpoint.port, properties)
    raise CorruptionError(f"bookie {bookie_id} registered no endpoint of protocol {PROTOCOL}")


def _is_address(host: str, port: int) -> bool:
    return 0 < len(host) <= _HOST_CHARACTERS_MAX and host.isprintable() and 0 < port <= PORT_MAX
