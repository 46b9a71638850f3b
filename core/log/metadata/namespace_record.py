"""The metadata records of namespaces, and of their moves between metadata stores (rule STR-29)."""

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any

from ...protocol.bookie_id import Region, check_region
from ...protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NamespaceMovingError,
    NoSuchNamespaceError,
)
from ...protocol.metadata_record import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from ..policy import StreamPolicy

_FORMAT = 1
_RESERVATION_FORMAT = 2
"""Programs that know no regional stores refuse a namespace of this format."""
_MOVING_FORMAT = 3
_MOVING_RESERVATION_FORMAT = 4
"""Programs that know no moves refuse a namespace in these formats."""

_DECODED_MAX = 16
"""Number of decoded records that are kept. A namespace is read with each of its streams."""


class MovePhase(Enum):
    """The part of one of the two stores in a move of a namespace (rule STR-34)."""

    LEAVING = "leaving"
    """It is still there, and closed for changes."""
    ARRIVING = "arriving"
    """It is not there yet, and is being copied."""
    ARRIVED = "arrived"
    """The move is committed; its last traces are being removed from the other store."""


@dataclass(frozen=True, slots=True)
class NamespaceMove:
    """The state of a move in the record of a namespace."""

    phase: MovePhase
    region: Region
    """The region of the regional store of the two."""
    mover: str
    """The random token of the attempt. Each attempt changes it, which stops the one before."""
    reservation: str = ""
    """The token of the reservation under which a namespace is in the regional store it leaves."""

    def to_fields(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "phase": self.phase.value,
            "region": self.region,
            "mover": self.mover,
            "reservation": self.reservation,
        }

    @classmethod
    def from_fields(cls, name: str, fields: dict[str, Any]) -> "NamespaceMove":
        """Decode the JSON form. Raises CorruptionError."""
        try:
            return cls(
                MovePhase(fields["phase"]),
                check_region(fields["region"]),
                str(fields["mover"]),
                str(fields["reservation"]),
            )
        except (KeyError, ValueError, InvalidArgumentError) as error:
            raise CorruptionError(f"namespace {name}: bad state of a move: {fields!r}") from error


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A namespace: the default policy of its streams, and the token of its creator."""

    token: str
    created_ms: int
    policy: StreamPolicy
    move: NamespaceMove | None = None
    """The move to or from this store, if there is one."""

    @property
    def is_in_force(self) -> bool:
        """True if the namespace is in this store and may be changed."""
        return self.move is None or self.move.phase is MovePhase.ARRIVED

    def check_in_force(self, name: str) -> None:
        """Raise NamespaceMovingError unless the namespace is in this store and may be changed."""
        if not self.is_in_force:
            raise moving_error(name)

    def moved(self, move: NamespaceMove | None) -> "NamespaceRecord":
        """Return the record with another state of the move."""
        return replace(self, move=move)

    def encode(self) -> bytes:
        """Encode the value of the node."""
        fields = {
            "token": self.token,
            "created_ms": self.created_ms,
            "policy": self.policy.to_fields(),
        }
        if self.move is None:
            return encode_metadata_record(_FORMAT, fields)
        return encode_metadata_record(_MOVING_FORMAT, {**fields, "move": self.move.to_fields()})

    @classmethod
    def decode(cls, name: str, data: bytes) -> "NamespaceRecord":
        """Decode the value of the node. Raises CorruptionError, ForeignDataError.

        Raises NoSuchNamespaceError if it is a reservation: the namespace is in a regional store.
        """
        return _decode_namespace(name, data)


@dataclass(frozen=True, slots=True)
class NamespaceReservation:
    """The name of a namespace that is in a regional store, kept by the global store (STR-29).

    It has the path of a namespace, so that a name is used once in the whole cluster.
    """

    token: str
    """Random; see ``regional_namespaces``."""
    created_ms: int
    region: Region
    move: NamespaceMove | None = None
    """The move to or from the regional store, if there is one."""

    def moved(self, move: NamespaceMove | None) -> "NamespaceReservation":
        """Return the reservation with another state of the move."""
        return replace(self, move=move)

    def encode(self) -> bytes:
        """Encode the value of the node."""
        fields = {"token": self.token, "created_ms": self.created_ms, "region": self.region}
        if self.move is None:
            return encode_metadata_record(_RESERVATION_FORMAT, fields)
        move = self.move.to_fields()
        return encode_metadata_record(_MOVING_RESERVATION_FORMAT, {**fields, "move": move})

    @classmethod
    def decode(cls, name: str, data: bytes) -> "NamespaceReservation | None":
        """Decode the value of a namespace's node; None if the namespace is in this store.

        Raises CorruptionError.
        """
        version = metadata_record_version(data)
        if version not in (_RESERVATION_FORMAT, _MOVING_RESERVATION_FORMAT):
            return None
        is_moving = version == _MOVING_RESERVATION_FORMAT
        types: dict[str, type | tuple[type, ...]]
        types = {"token": str, "created_ms": int, "region": str}
        fields = decode_metadata_record(
            f"reservation of namespace {name}",
            data,
            version=version,
            fields={**types, "move": dict} if is_moving else types,
        )
        return cls(
            fields["token"],
            fields["created_ms"],
            check_region(fields["region"]),
            NamespaceMove.from_fields(name, fields["move"]) if is_moving else None,
        )


def regional_side_of(name: str, data: bytes) -> Region | None:
    """Return the region of the regional store that has to do with a namespace, if any.

    ``data`` is the value of its node in the global store. It is the region of the store that has
    the namespace, or of the one that it moves to or from. Raises CorruptionError.
    """
    reservation = NamespaceReservation.decode(name, data)
    if reservation is not None:
        return reservation.region
    move = NamespaceRecord.decode(name, data).move
    return None if move is None else move.region


def moving_error(name: str) -> NamespaceMovingError:
    """Return the error for a change of a namespace that is being moved."""
    return NamespaceMovingError(
        f"namespace {name} is being moved to another metadata store; an interrupted move is "
        "continued by repeating `rhumbline namespace move`"
    )


@lru_cache(maxsize=_DECODED_MAX)
def _decode_namespace(name: str, data: bytes) -> NamespaceRecord:
    reservation = NamespaceReservation.decode(name, data)
    if reservation is not None:
        raise NoSuchNamespaceError(
            f"namespace {name} is in the metadata store of region {reservation.region}, not in "
            "this one"
        )
    is_moving = metadata_record_version(data) == _MOVING_FORMAT
    types: dict[str, type | tuple[type, ...]]
    types = {"token": str, "created_ms": int, "policy": dict}
    fields = decode_metadata_record(
        f"namespace {name}",
        data,
        version=_MOVING_FORMAT if is_moving else _FORMAT,
        fields={**types, "move": dict} if is_moving else types,
    )
    return NamespaceRecord(
        fields["token"],
        fields["created_ms"],
        StreamPolicy.from_fields(fields["policy"]),
        NamespaceMove.from_fields(name, fields["move"]) if is_moving else None,
    )
