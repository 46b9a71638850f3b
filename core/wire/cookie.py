"""Cookies: which bookie a set of directories belongs to, in BookKeeper's text form.

The same text lies in the directories and in the metadata store. A line with the format's version,
then one ``name: "value"`` a line; a list of directories is its length and its members, separated by
TAB characters.
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
    """Whose directories these are. ``journal_dir`` may name several, separated by commas."""

    bookie_id: BookieId
    journal_dir: str
    ledger_dirs: tuple[str, ...]
    instance_id: str | None = None
    index_dirs: tuple[str, ...] | None = None


def encode(cookie: Cookie) -> bytes:
    """The text of a cookie. The same cookie gives the same bytes, which Java gives too."""
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
    """Reads a cookie. Raises CorruptionError: another version, or no cookie at all."""
    if len(data) > _BYTES_MAX or not data.startswith(_VERSION_LINE):
        raise CorruptionError(f"no cookie of version 5: {data[:40]!r}")
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
        raise CorruptionError(f"a cookie that does not parse: {data[:80]!r}") from error


def _encode_list(names: tuple[str, ...]) -> bytes:
    return "\t".join((str(len(names)), *names)).encode()


def _decode_list(data: bytes) -> tuple[str, ...]:
    count, *names = data.decode().split("\t")
    if count != str(len(names)):
        raise CorruptionError(f"a cookie with {len(names)} directories that says {count[:20]!r}")
    return tuple(names)
