"""Values in the metadata store: one line of JSON with a version, checked field by field.

The format is JSON so that an operator can read it with the store's own tools. It is checked
strictly: a value that is almost right (edited by hand, or written by another program) must not be
interpreted by guessing.
"""

import json
from collections.abc import Mapping
from typing import Any

from .errors import CorruptionError, ForeignDataError

_VERSION_KEY = "v"


def encode_metadata_record(version: int, fields: Mapping[str, Any]) -> bytes:
    """Return one line of JSON; the same fields always give the same bytes."""
    assert _VERSION_KEY not in fields
    return json.dumps({_VERSION_KEY: version, **fields}, separators=(",", ":")).encode()


def metadata_record_version(data: bytes) -> int | None:
    """Return the version of a record; None if it is not a versioned record."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    version = value.get(_VERSION_KEY) if isinstance(value, dict) else None
    return version if type(version) is int else None


def decode_metadata_record(
    what: str,
    data: bytes,
    *,
    version: int,
    fields: Mapping[str, type | tuple[type, ...]],
    optional: Mapping[str, object] | None = None,
    ignores_unknown: bool = False,
) -> dict[str, Any]:
    """Return the fields of ``data``, which must have exactly the given names and types.

    ``what`` names the record in error messages. ``optional`` gives the values of fields that may be
    absent. ``ignores_unknown`` permits fields that a later program has added. Raises
    CorruptionError, and ForeignDataError for a newer version.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"{what}: not JSON: {data[:60]!r}") from error
    if not isinstance(value, dict) or type(value.get(_VERSION_KEY)) is not int:
        raise CorruptionError(f"{what}: not a versioned record: {data[:60]!r}")
    found = value.pop(_VERSION_KEY)
    if found > version:
        raise ForeignDataError(f"{what}: format {found} is newer than this program's {version}")
    value = {**(optional or {}), **value}
    if ignores_unknown:
        value = {name: field for name, field in value.items() if name in fields}
    if found != version or value.keys() != fields.keys():
        raise CorruptionError(f"{what}: unexpected format {found} with fields {sorted(value)}")
    for name, types in fields.items():
        allowed = types if isinstance(types, tuple) else (types,)
        if type(value[name]) not in allowed:
            raise CorruptionError(f"{what}: field {name} has the wrong type: {value[name]!r}")
    return value
