"""Cookies: records of the bookie that a set of directories belongs to, in BookKeeper's text form.

The same text is stored in the directories and in the metadata store (rule BKE-4). A line with the
format's version is followed by one line ``name: "value"`` per field. A list of directories is its
length and its members, separated by TAB characters.
"""

from dataclasses import dataclass

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ..protocol.bookie_id import BookieId, check_bookie_id
from ..protocol.errors import CorruptionError, InvalidArgumentError
from .formats_pb2 import CookieFormat
from .protobuf_parsing import parse_text

_VERSION_LINE = b"5\n"
_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Cookie:
    """A bookie's id and directories; ``journal_dir`` may hold several, separated by commas."""

    bookie_id: BookieId
    journal_dir: str
    ledger_dirs: tuple[str, ...]
    instance_id: str | None = None
    index_dirs: tuple[str, ...] | None = None


def encode(cookie: Cookie) -> bytes:
    """Encode a cookie, to the same bytes as Java does."""
    assert not any("\t" in name for name in (*cookie.ledger_dirs, *(cookie.index_dirs or ())))
    message = CookieFormat(
        bookieHost=cookie.bookie_id.encode(),
        journalDir=cookie.journal_dir.encode(),
        ledgerDirs=_encode_list(cookie.ledger_dirs),
    )
    if cookie.instance_id is not None:
        message.instanceId = cookie.instance_id.encode()
    if cookie.index_dirs is not None:
        message.indexDirs = _encode_list(cookie.index_dirs)
    return _VERSION_LINE + text_format.MessageToString(message).encode()


def decode(data: bytes) -> Cookie:
    """Decode a cookie. Raises CorruptionError for another version or anything else."""
    if len(data) > _BYTES_MAX or not data.startswith(_VERSION_LINE):
        raise CorruptionError(f"not a cookie of version 5: {data[:40]!r}")
    try:
        message = parse_text(CookieFormat, data[len(_VERSION_LINE) :].decode())
        return Cookie(
            check_bookie_id(message.bookieHost.decode()),
            message.journalDir.decode(),
            _decode_list(message.ledgerDirs),
            message.instanceId.decode() if message.HasField("instanceId") else None,
            _decode_list(message.indexDirs) if message.HasField("indexDirs") else None,
        )
    except (DecodeError, UnicodeDecodeError, InvalidArgumentError) as error:
        raise CorruptionError(f"cookie does not parse: {data[:80]!r}") from error


def _encode_list(names: tuple[str, ...]) -> bytes:
    return "\t".join((str(len(names)), *names)).encode()


def _decode_list(data: bytes) -> tuple[str, ...]:
    count, *names = data.decode().split("\t")
    if count != str(len(names)):
        raise CorruptionError(f"cookie lists {len(names)} directories but states {count[:20]!r}")
    return tuple(names)
