"""The `rhumbline` AUTH plugin: a client says which bookie it wants, before anything else.

An address may be given to another bookie, or to the same one with empty disks; the id names one
life of one bookie's data. So a connection to an id with an incarnation begins with an AUTH frame
(v2 or v3) that names the id. The bookie answers with its own id; if they differ it closes after
that answer, and the client takes the wanted bookie for unreachable: never for one that says "no".

Payloads: one byte of version (1), one byte that says what follows (0 hello, 1 accepted, 2 refused),
then a bookie id in ASCII. Neither side reads on after a payload of another version.
"""

from ..protocol.bookie_id import BookieId, check_bookie_id
from ..protocol.errors import BookieUnavailableError, InvalidArgumentError, ProtocolError

PLUGIN = "rhumbline"
"""The plugin's name in AUTH messages."""

APACHE_NO_AUTH_PLUGIN = "AuthDisabledPlugin"
"""What an Apache bookie answers, with an empty payload, to any AUTH message if it wants none."""

_VERSION = 1
_HELLO, _ACCEPTED, _REFUSED = range(3)
_HEAD_BYTES = 2
_ID_BYTES_MAX = 209


def encode_hello(wanted: BookieId) -> bytes:
    """The client's payload."""
    return bytes((_VERSION, _HELLO)) + wanted.encode("ascii")


def decode_hello(payload: bytes) -> BookieId:
    """Which bookie the client wants. Raises ProtocolError."""
    kind, bookie = _decode(payload)
    if kind != _HELLO:
        raise ProtocolError(f"a greeting of kind {kind}")
    return bookie


def encode_answer(wanted: BookieId, here: BookieId) -> bytes:
    """The payload of the bookie ``here``; it refuses unless it is the one that is wanted."""
    kind = _ACCEPTED if wanted == here else _REFUSED
    return bytes((_VERSION, kind)) + here.encode("ascii")


def check_answer(plugin: str, payload: bytes, wanted: BookieId) -> None:
    """Returns if the peer proved to be ``wanted``.

    Raises BookieUnavailableError when it is another bookie or one that knows no ids, ProtocolError
    when the answer is none.
    """
    if plugin != PLUGIN:
        raise BookieUnavailableError(f"{wanted}: the bookie there has plugin {plugin[:80]!r}")
    kind, here = _decode(payload)
    if kind not in (_ACCEPTED, _REFUSED) or (kind == _ACCEPTED) != (here == wanted):
        raise ProtocolError(f"{wanted}: an answer of kind {kind} from {here}")
    if kind == _REFUSED:
        raise BookieUnavailableError(f"{wanted}: at its address there is {here} now")


def _decode(payload: bytes) -> tuple[int, BookieId]:
    if not _HEAD_BYTES < len(payload) <= _HEAD_BYTES + _ID_BYTES_MAX:
        raise ProtocolError(f"a greeting of {len(payload)} bytes")
    if payload[0] != _VERSION:
        raise ProtocolError(f"a greeting of version {payload[0]}; this one knows {_VERSION}")
    try:
        return payload[1], check_bookie_id(payload[_HEAD_BYTES:].decode("ascii"))
    except (UnicodeDecodeError, InvalidArgumentError) as error:
        raise ProtocolError("a greeting without a bookie id") from error
