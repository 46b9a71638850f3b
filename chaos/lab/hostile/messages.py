"""Malformed and forbidden messages for each kind of port, drawn at random."""

from collections.abc import Callable
from random import Random

from ....core.wire import v2
from ....core.wire.entry import master_key

BOOKIE, PROXY, STATUS = "bookie", "proxy", "status"

_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_PATHS = (b"/stat", b"/metrics", b"/../../etc/passwd", b"/" + b"a" * 2_000, b"")
_LEDGERS = 1_000
_FRAME_TYPES = 16


def batch_of(kind: str, count: int, random: Random) -> bytes:
    """Return ``count`` messages for a port of a kind, as one connection sends them."""
    messages = b"".join(_MESSAGES[kind](random) for _ in range(count))
    return _HTTP2_PREFACE + messages if kind == PROXY else messages


def _bookie(random: Random) -> bytes:
    ledger = random.randrange(_LEDGERS)
    match random.randrange(5):
        case 0:
            return _framed(random.randbytes(random.randint(1, 60)))
        case 1:
            return random.getrandbits(32).to_bytes(4, "big") + random.randbytes(20)
        case 2:
            return _framed(b"\x0a" + random.randbytes(random.randint(1, 40)))
        case 3:
            return v2.encode_read(ledger, random.randrange(100))
        case _:
            return v2.encode_read(ledger, 0, v2.FLAG_FENCE, master_key(b""))


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _proxy(random: Random) -> bytes:
    body = random.randbytes(random.randint(0, 40))
    kind, flags = random.randrange(_FRAME_TYPES), random.randrange(256)
    stream = random.getrandbits(31).to_bytes(4, "big")
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream + body


def _status(random: Random) -> bytes:
    verb = random.choice((b"GET", b"POST", random.randbytes(4)))
    return verb + b" " + random.choice(_PATHS) + b" HTTP/9.9\r\n\r\n"


_MESSAGES: dict[str, Callable[[Random], bytes]] = {
    BOOKIE: _bookie,
    PROXY: _proxy,
    STATUS: _status,
}
