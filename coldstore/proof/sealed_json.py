"""JSON objects that end with a digest of themselves (rule ARC-21).

The last member is ``seal``: the SHA-256 of every byte before its name. A reader compares it before
it uses anything of the object, so no changed byte is ever believed.
"""

import hashlib
import json
from typing import Any

from ...core.protocol.errors import CorruptionError, ForeignDataError

_BEFORE, _AFTER = b',\n "seal": "', b'"\n}'
_SEAL_CHARACTERS = 64


def encode_sealed(form: int, fields: dict[str, Any]) -> bytes:
    """Return the object with ``format``, ``fields`` and the seal, one member per line."""
    body = json.dumps({"format": form, **fields}, indent=1).encode().removesuffix(b"\n}")
    return body + _BEFORE + hashlib.sha256(body).hexdigest().encode() + _AFTER


def decode_sealed(what: str, form: int, data: bytes) -> dict[str, Any]:
    """Return the members of a sealed object without ``format`` and ``seal``.

    Raises CorruptionError if a byte was changed, and ForeignDataError for another format.
    """
    try:
        fields: dict[str, Any] = json.loads(data)
        found = fields.pop("format")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptionError(f"not an {what}: {error}") from error
    if found != form:
        raise ForeignDataError(
            f"{what} has format {found!r}, this version reads format {form}: archive the stream "
            "again, or use another version"
        )
    body = data[: -len(_BEFORE) - _SEAL_CHARACTERS - len(_AFTER)]
    seal = hashlib.sha256(body).hexdigest()
    if data[len(body) :] != _BEFORE + seal.encode() + _AFTER:
        raise CorruptionError(f"the bytes of the {what} differ from their seal")
    del fields["seal"]
    return fields
