"""Quotas: the limits of principals, namespaces and streams, and their stored form. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from ..core.protocol.errors import CorruptionError, ForeignDataError, InvalidArgumentError
from ..core.protocol.metadata_record import decode_metadata_record, encode_metadata_record

QUOTAS_MAX = 1_000
"""Maximum number of quotas of a cluster: every proxy holds all of them."""
ANY = "*"
"""Name in the quota that applies to each subject of its kind without a quota of its own."""
LIMIT_MAX = 2**53
_NAME_CHARACTERS_MAX = 600
_FORMAT = 1


class SubjectKind(StrEnum):
    """The kind of a subject of quotas."""

    PRINCIPAL = "principal"
    NAMESPACE = "namespace"
    STREAM = "stream"


class Subject(NamedTuple):
    """A principal, a namespace or a stream; the name of a stream is ``namespace/stream``."""

    kind: SubjectKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a subject in the whole cluster; None: no limit."""

    append_bytes_per_second: int | None = None
    append_records_per_second: int | None = None
    read_bytes_per_second: int | None = None
    streams: int | None = None
    """Number of streams of a namespace."""
    calls: int | None = None
    """Open append and read calls of a principal, at each proxy."""
    connections: int | None = None
    """Connections of a principal with such calls, at each proxy."""
    stored_bytes: int | None = None
    """Payload bytes in the closed ledgers of a namespace."""


LIMITS = tuple(field.name for field in fields(Quota))
"""Names of the limits."""

_LIMITS_OF = {
    SubjectKind.PRINCIPAL: (
        "append_bytes_per_second",
        "append_records_per_second",
        "read_bytes_per_second",
        "calls",
        "connections",
    ),
    SubjectKind.NAMESPACE: (
        "append_bytes_per_second",
        "append_records_per_second",
        "read_bytes_per_second",
        "streams",
        "stored_bytes",
    ),
    SubjectKind.STREAM: (
        "append_bytes_per_second",
        "append_records_per_second",
        "read_bytes_per_second",
    ),
}


_LEVELS = {"connections": 3, "stored_bytes": 3}
"""The feature level of each limit that programs of level 1 do not know."""


def parse_subject(text: str) -> Subject:
    """Return the subject that ``kind:name`` names. Raises InvalidArgumentError."""
    kind, colon, name = text.partition(":")
    known = {one.value: one for one in SubjectKind}
    if not colon or kind not in known or not name or len(name) > _NAME_CHARACTERS_MAX:
        kinds = ", ".join(f"{one}:NAME" for one in known)
        raise InvalidArgumentError(f"{text!r} is not one of {kinds}")
    subject = Subject(known[kind], name)
    if subject.kind is SubjectKind.STREAM and name != ANY and "/" not in name:
        raise InvalidArgumentError(f"{text!r} does not name a stream as stream:NAMESPACE/STREAM")
    return subject


def check_quota(subject: Subject, quota: Quota) -> None:
    """Raise InvalidArgumentError for a quota without a limit, or with one that does not apply."""
    given = {name: value for name in LIMITS if (value := getattr(quota, name)) is not None}
    if not given:
        raise InvalidArgumentError(f"the quota of {subject} has no limit")
    for name, value in given.items():
        if name not in _LIMITS_OF[subject.kind]:
            allowed = ", ".join(_LIMITS_OF[subject.kind])
            raise InvalidArgumentError(
                f"a {subject.kind} has no limit {name}; its limits are {allowed}"
            )
        low = 1 if name.endswith("_per_second") else 0
        if not low <= value <= LIMIT_MAX:
            raise InvalidArgumentError(f"{name} {value} is not between {low} and {LIMIT_MAX}")


class QuotaTable:
    """All quotas of a cluster. Immutable."""

    def __init__(self, quotas: Mapping[Subject, Quota]) -> None:
        """Raises InvalidArgumentError if there are too many."""
        if len(quotas) > QUOTAS_MAX:
            raise InvalidArgumentError(f"a cluster has at most {QUOTAS_MAX} quotas")
        self._quotas = dict(quotas)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuotaTable) and self._quotas == other._quotas

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self._quotas)

    def items(self) -> list[tuple[Subject, Quota]]:
        """Return all quotas, ordered by subject."""
        return sorted(self._quotas.items())

    def find(self, kind: SubjectKind, name: str) -> Quota | None:
        """Return the quota of a subject: its own, else the one named ``*``; None without either."""
        quotas = self._quotas
        return quotas.get(Subject(kind, name)) or quotas.get(Subject(kind, ANY))

    def with_quota(self, subject: Subject, quota: Quota) -> "QuotaTable":
        """Return the table with one quota added or replaced. Raises InvalidArgumentError."""
        check_quota(subject, quota)
        return QuotaTable({**self._quotas, subject: quota})

    def without(self, subject: Subject) -> "QuotaTable":
        """Return the table without the quota of a subject."""
        return QuotaTable({one: quota for one, quota in self._quotas.items() if one != subject})


NO_QUOTAS = QuotaTable({})


def level_of(table: QuotaTable) -> int:
    """Return the lowest feature level at which a table may be stored (rule UPG-4)."""
    used = (name for _, quota in table.items() for name in _LEVELS if _has(quota, name))
    return max((_LEVELS[name] for name in used), default=1)


def _has(quota: Quota, name: str) -> bool:
    return getattr(quota, name) is not None


def encode_quotas(table: QuotaTable) -> bytes:
    """Return the stored form."""
    rows = {
        str(subject): {
            name: value for name in LIMITS if (value := getattr(quota, name)) is not None
        }
        for subject, quota in table.items()
    }
    return encode_metadata_record(_FORMAT, {"quotas": rows})


def decode_quotas(data: bytes) -> QuotaTable:
    """Return the table of a stored form. Raises CorruptionError, ForeignDataError."""
    found = decode_metadata_record("the quotas", data, version=_FORMAT, fields={"quotas": dict})
    try:
        return QuotaTable(dict(_decode_rows(found["quotas"].items())))
    except InvalidArgumentError as error:
        raise CorruptionError(f"the quotas cannot be decoded: {error}") from error


def _decode_rows(rows: Iterable[tuple[str, Any]]) -> Iterable[tuple[Subject, Quota]]:
    for text, limits in rows:
        subject = parse_subject(text)
        if not isinstance(limits, dict) or any(type(value) is not int for value in limits.values()):
            raise InvalidArgumentError(f"the limits of {text} are not numbers")
        unknown = sorted(limits.keys() - set(LIMITS))
        if unknown:
            raise ForeignDataError(f"the quota of {text} has unknown limits: {', '.join(unknown)}")
        quota = Quota(**limits)
        check_quota(subject, quota)
        yield subject, quota
