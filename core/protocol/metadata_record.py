"""Values in the metadata store: one line of JSON with a version, checked field by field.

The format is JSON so that an operator can read it with the store's own tools. It is checked
strictly: a value that is almost right (edited by hand, or written by another program) must not be
interpreted by guessing.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any

from .errors import CorruptionError, ForeignDataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_VERSION_KEY = "v"
_READER_KEY = "min"
_BEGINNING = re.compile(rb'\{"v":(0|[1-9][0-9]{0,8})[,}]')
"""The beginning of what ``encode_metadata_record`` returns."""


def encode_metadata_record(
    version: int, fields: Mapping[str, Any], *, oldest_reader: int | None = None
) -> bytes:
    """Return one line of JSON; the same fields always give the same bytes.

    ``oldest_reader`` is the oldest version whose programs may read the record without the fields
    that they do not know. It is for records that only their own writer replaces: another one would
    drop those fields. Programs read it from feature level 2 on (rule UPG-4).
    """
    assert _VERSION_KEY not in fields and _READER_KEY not in fields
    reader = {} if oldest_reader is None else {_READER_KEY: oldest_reader}
    record = {_VERSION_KEY: version, **reader, **fields}
    return json.dumps(record, separators=(",", ":")).encode()


def fields_to_store(value: "DataclassInstance", always: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass by name, without those that have their default (rule UPG-5).

    Programs from before a field was added can then read the record, unless the field is used.
    ``always`` names fields that are stored with their default too.
    """
    found = {field.name: getattr(value, field.name) for field in fields_of(value)}
    defaults = {field.name: field.default for field in fields_of(value)}
    return {name: v for name, v in found.items() if name in always or v != defaults[name]}


def metadata_record_version(data: bytes) -> int | None:
    """Return the version of a record; None if it is not a versioned record.

    What follows the version is not checked if the record begins like ours.
    """
    begin = _BEGINNING.match(data)
    if begin is not None:
        return int(begin[1])
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
    absent. ``ignores_unknown`` permits fields that a later program has added; so does a newer
    record that names this version, or an earlier one, as its oldest reader. Raises CorruptionError,
    and ForeignDataError for another newer version.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptionError(f"{what}: not JSON: {data[:60]!r}") from error
    if not isinstance(value, dict) or type(value.get(_VERSION_KEY)) is not int:
        raise CorruptionError(f"{what}: not a versioned record: {data[:60]!r}")
    found = value.pop(_VERSION_KEY)
    oldest_reader = value.pop(_READER_KEY, found)
    if type(oldest_reader) is not int or not 0 <= oldest_reader <= found:
        raise CorruptionError(f"{what}: {oldest_reader!r} is not the version of its oldest reader")
    if found > version:
        if oldest_reader > version:
            raise ForeignDataError(f"{what}: format {found} is newer than this program's {version}")
        found, ignores_unknown = version, True
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
