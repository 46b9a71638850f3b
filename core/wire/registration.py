"""Bookie registrations: the record that a bookie publishes under its id while it is up.

The value is BookKeeper's BookieServiceInfoFormat. Clients connect to the first endpoint of protocol
``bookie-rpc``. An empty value is the legacy form, in which the bookie id is the address. A value
that does not parse makes a Java client hang at start, so no other format is ever written.

Rhumbline adds these properties, which Java clients ignore: ``zone``, ``rack`` and ``host``, the
location in its region; ``region`` (for display only: quorums use the persistent region node, rule
PLC-10); ``free_bytes``; ``limbo`` (present while the bookie is in limbo, rule BKE-16); ``lost``
(the ledgers of which it has lost copies, rule DSK-5); ``holder`` (the lock that the process holds);
``address.<region>``, the ``host:port`` for clients in a region.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ..protocol.bookie_id import BookieId
from ..protocol.errors import CorruptionError
from ..runtime.metadata_store import VALUE_BYTES_MAX
from . import lost_ledgers
from .formats_pb2 import BookieServiceInfoFormat
from .lost_ledgers import LostLedgers
from .protobuf_parsing import parse

PROTOCOL = "bookie-rpc"
ENDPOINT_ID = "bookie"
PORT_MAX = 65535

ZONE = "zone"
RACK = "rack"
HOST = "host"
REGION = "region"
FREE_BYTES = "free_bytes"
LIMBO = "limbo"
LOST = "lost"
HOLDER = "holder"
ADDRESS_PREFIX = "address."

_HOST_CHARACTERS_MAX = 253  # DNS


class BookieAddress(NamedTuple):
    """The host and port on which a bookie listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A bookie's id, its general address and its properties."""

    bookie_id: BookieId
    host: str
    port: int
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> BookieAddress:
        """The address for clients in regions without an address of their own."""
        return BookieAddress(self.host, self.port)

    @property
    def location(self) -> tuple[str | None, str | None, str]:
        """The zone, rack and host; zone and rack are None if they are not registered.

        The host is by default the one of the address, so bookies on one machine share it.
        """
        properties = self.properties
        return properties.get(ZONE), properties.get(RACK), properties.get(HOST, self.host)

    @property
    def is_in_limbo(self) -> bool:
        """True if the bookie says that it may have lost something that it acknowledged."""
        return LIMBO in self.properties

    @property
    def lost_ledgers(self) -> LostLedgers:
        """The ledgers of which the bookie has lost copies with a failed data directory."""
        return lost_ledgers.decode(self.properties.get(LOST, ""))

    @property
    def free_bytes(self) -> int:
        """Free space in bytes that the bookie last published; 0 if it never did."""
        text = self.properties.get(FREE_BYTES, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def parse_address(text: str) -> BookieAddress | None:
    """Parse ``host:port`` or ``[host]:port``; return None for anything else."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not colon or not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return None
    return BookieAddress(host, int(port)) if _is_address(host, int(port)) else None


def encode(registration: Registration) -> bytes:
    """Encode a registration; the same registration gives the same bytes."""
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
    """Decode the value of a registration node, also an empty one. Raises CorruptionError."""
    if not data:
        address = parse_address(bookie_id)
        if address is None:
            raise CorruptionError(
                f"bookie {bookie_id} registered no address, and its id is not an address"
            )
        return Registration(bookie_id, address.host, address.port)
    if len(data) > VALUE_BYTES_MAX:
        raise CorruptionError(
            f"bookie {bookie_id} registered {len(data)} bytes, more than {VALUE_BYTES_MAX}"
        )
    try:
        return _decode(bookie_id, parse(BookieServiceInfoFormat, data))
    except (DecodeError, UnicodeDecodeError) as error:
        raise CorruptionError(f"registration of bookie {bookie_id} does not parse") from error


def _decode(bookie_id: BookieId, info: BookieServiceInfoFormat) -> Registration:
    for endpoint in info.endpoints:
        if endpoint.protocol == PROTOCOL.encode():
            host = endpoint.host.decode()
            if not _is_address(host, endpoint.port):
                raise CorruptionError(
                    f"bookie {bookie_id} registered a bad address {host[:80]!r}:{endpoint.port}"
                )
            properties = {p.key.decode(): p.value.decode() for p in info.properties}
            return Registration(bookie_id, host, endpoint.port, properties)
    raise CorruptionError(f"bookie {bookie_id} registered no endpoint of protocol {PROTOCOL}")


def _is_address(host: str, port: int) -> bool:
    return 0 < len(host) <= _HOST_CHARACTERS_MAX and host.isprintable() and 0 < port <= PORT_MAX
