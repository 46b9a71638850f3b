"""The `rhumbline` AUTH plugin: a client names the bookie that it wants, before its first request.

An address may be reused by another bookie, or by the same one with empty disks, while an id names
one incarnation of one bookie's data (rules BKE-3, BKE-5). A connection to an id with an incarnation
therefore begins with an AUTH frame (v2 or v3) that names the id. The bookie responds with its own
id. If the ids differ, it closes the connection after that response, and the client treats the
wanted bookie as unreachable, never as a bookie that answered "no".

A payload is one byte of version (1), one byte of kind (0 hello, 1 accepted, 2 refused) and a bookie
id in ASCII. Neither side reads on after a payload of another version.
"""

from ..protocol.bookie_id import BookieId, check_bookie_id
from ..protocol.errors import BookieUnavailableError, InvalidArgumentError, ProtocolError

PLUGIN = "rhumbline"
"""The plugin's name in AUTH messages."""

APACHE_NO_AUTH_PLUGIN = "AuthDisabledPlugin"
"""The plugin name in an Apache bookie's response, with an empty payload, if it needs no AUTH."""

TLS_REQUIRED_PLUGIN = "TLS is required"
"""The plugin name in the response of a bookie that refuses to speak without TLS."""

_VERSION = 1
_HELLO, _ACCEPTED, _REFUSED = range(3)
_HEAD_BYTES = 2
_ID_BYTES_MAX = 209


def encode_hello(wanted: BookieId) -> bytes:
    """Encode the client's payload."""
    return bytes((_VERSION, _HELLO)) + wanted.encode("ascii")


def decode_hello(payload: bytes) -> BookieId:
    """Return the bookie that the client wants. Raises ProtocolError."""
    kind, bookie = _decode(payload)
    if kind != _HELLO:
        raise ProtocolError(f"unexpected kind {kind} in an AUTH request")
    return bookie


def encode_response(wanted: BookieId, actual: BookieId) -> bytes:
    """Encode the payload of the bookie ``actual``: accepted if it is wanted, else refused."""
    kind = _ACCEPTED if wanted == actual else _REFUSED
    return bytes((_VERSION, kind)) + actual.encode("ascii")


def check_response(plugin: str, payload: bytes, wanted: BookieId) -> None:
    """Check that a response comes from the bookie ``wanted``.

    Raises BookieUnavailableError if it comes from another bookie or from one that does not support
    ids, and ProtocolError for a malformed response.
    """
    if plugin == TLS_REQUIRED_PLUGIN:
        raise BookieUnavailableError(f"{wanted} refuses connections without TLS: set [tls] ca")
    if plugin != PLUGIN:
        raise BookieUnavailableError(
            f"{wanted}: the bookie at its address uses the AUTH plugin {plugin[:80]!r}"
        )
    kind, actual = _decode(payload)
    if kind not in (_ACCEPTED, _REFUSED) or (kind == _ACCEPTED) != (actual == wanted):
        raise ProtocolError(f"{wanted}: unexpected AUTH response of kind {kind} from {actual}")
    if kind == _REFUSED:
        raise BookieUnavailableError(f"{wanted}: its address now belongs to {actual}")


def _decode(payload: bytes) -> tuple[int, BookieId]:
    if not _HEAD_BYTES < len(payload) <= _HEAD_BYTES + _ID_BYTES_MAX:
        raise ProtocolError(f"AUTH payload has {len(payload)} bytes")
    if payload[0] != _VERSION:
        raise ProtocolError(f"AUTH payload has version {payload[0]}, not {_VERSION}")
    try:
        return payload[1], check_bookie_id(payload[_HEAD_BYTES:].decode("ascii"))
    except (UnicodeDecodeError, InvalidArgumentError) as error:
        raise ProtocolError("AUTH payload has no valid bookie id") from error
