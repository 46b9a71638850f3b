"""The metadata records of streams (those of segments are in ``core/protocol``).

A stream has two nodes, because two parties change them (rules STR-1 and STR-2). Administrators
change the *record* (policy, truncation), and writers change the *head* (the claim, the last
segment). Truncation therefore never disturbs a writer, and a writer whose head was changed knows
that it has lost the stream.
"""

from dataclasses import dataclass, replace

from ...protocol.dlsn import FIRST_DLSN, STREAM_ID_CHARACTERS, Dlsn
from ...protocol.errors import CorruptionError, InvalidArgumentError
from ...protocol.metadata_record import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from ...protocol.segments import FIRST_LSSN, NO_SEGMENT
from ..policy import StreamPolicy

_FORMAT = 1
_MOVING_FORMAT = 2
"""Programs that know no moves refuse a stream of this format."""

_SEALED_FORMAT = 2
"""Programs that know no seal refuse the head of a sealed stream, so they cannot write to it."""

_DELETION = "deletion"
"""The token of a head that can never be claimed again. The tokens of writers are random."""

MOVE = "move"
"""The token of a head that cannot be claimed while its namespace moves to another store."""

_FREE = ""
"""The token of a head that nobody has claimed."""


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """The part of a stream's metadata that administrators change."""

    identity: str
    """A random value that tells streams of the same name apart (rule STR-23)."""
    created_ms: int
    policy: StreamPolicy | None = None
    """The policy; None: that of the namespace."""
    start: Dlsn = FIRST_DLSN
    """The first active position. Readers see nothing below it. It moves forward, and back only
    until the purge of the truncated segments begins."""
    first_lssn: int = FIRST_LSSN
    """The first segment that was not purged; never above the segment of ``start``."""
    purging_lssn: int = FIRST_LSSN
    """Segments below this one are being purged, or were: ``start`` never moves back to them."""
    marked_lssn: int = FIRST_LSSN
    """Segments below this one were truncated at ``marked_ms`` and ever since."""
    marked_ms: int = 0
    """Time of day in ms at which the grace period of the marked segments began."""
    is_deleting: bool = False
    """True once a deletion has begun. A repeated deletion continues it."""
    is_moving: bool = False
    """True while the namespace moves to another store: nothing changes (rule STR-34)."""

    @property
    def stream_id(self) -> str:
        """The part of the identity that positions of the stream carry (rule STR-32)."""
        return self.identity[:STREAM_ID_CHARACTERS]

    @property
    def first_active(self) -> Dlsn:
        """``start`` with the id of the stream, for callers of the API."""
        return self.start.in_stream(self.stream_id)

    @property
    def oldest(self) -> Dlsn:
        """The lowest position to which an untruncation can move the start."""
        return Dlsn(max(self.first_lssn, self.purging_lssn), 0, 0)

    def truncated(self, start: Dlsn) -> "StreamRecord":
        """Return the record with its start moved forward to ``start``, never back."""
        return self if start <= self.start else replace(self, start=start)

    def untruncated(self, start: Dlsn) -> "StreamRecord":
        """Return the record with its start moved back to ``start``, never forward.

        A segment that is active again loses its mark, so that a later truncation has a grace period
        of its own.
        """
        assert start >= self.oldest, "what is being purged stays truncated"
        if start >= self.start:
            return self
        return replace(self, start=start, marked_lssn=min(self.marked_lssn, start.lssn))

    def has_grace_ended(self, now_ms: int, grace_ms: int) -> bool:
        """True if the marked segments may be purged, as far as time is concerned."""
        return now_ms - self.marked_ms >= grace_ms

    def marked(self, now_ms: int, grace_ms: int) -> "StreamRecord":
        """Return the record with all truncated segments marked at ``now_ms``.

        It is unchanged while the grace period of other segments runs, because there is one mark.
        """
        is_pending = self.oldest.lssn < self.marked_lssn
        if self.start.lssn <= self.marked_lssn or (
            is_pending and not self.has_grace_ended(now_ms, grace_ms)
        ):
            return self
        return replace(self, marked_lssn=self.start.lssn, marked_ms=now_ms)

    def purging(self, lssn: int) -> "StreamRecord":
        """Return the record with the purge of the segments below ``lssn`` begun.

        They must be marked, and their grace period must have ended.
        """
        assert lssn <= self.marked_lssn <= self.start.lssn, "only truncated segments are purged"
        return replace(self, purging_lssn=max(lssn, self.oldest.lssn))

    def purged(self, first_lssn: int) -> "StreamRecord":
        """Return the record without the segments below ``first_lssn``, whose purge had begun."""
        assert first_lssn <= self.purging_lssn <= self.start.lssn, "a purge is announced first"
        return replace(self, first_lssn=max(first_lssn, self.first_lssn))

    def encode(self) -> bytes:
        """Encode the value of the node."""
        return encode_metadata_record(
            _MOVING_FORMAT if self.is_moving else _FORMAT,
            {
                "identity": self.identity,
                "created_ms": self.created_ms,
                "policy": None if self.policy is None else self.policy.to_fields(),
                "start": str(self.start.in_stream("")),
                "first_lssn": self.first_lssn,
                "marked": [self.marked_lssn, self.marked_ms],
                "is_deleting": self.is_deleting,
                **self._purge_fields(),
            },
        )

    def _purge_fields(self) -> dict[str, int]:
        """Return the field of a purge in progress; without one it is absent."""
        is_purging = self.purging_lssn > self.first_lssn
        return {"purging_lssn": self.purging_lssn} if is_purging else {}

    @classmethod
    def decode(cls, name: str, data: bytes) -> "StreamRecord":
        """Decode the value of the node. Raises CorruptionError, ForeignDataError."""
        is_moving = metadata_record_version(data) == _MOVING_FORMAT
        fields = decode_metadata_record(
            f"stream {name}",
            data,
            version=_MOVING_FORMAT if is_moving else _FORMAT,
            fields=_STREAM,
            optional={"purging_lssn": 0},
        )
        policy = fields["policy"]
        try:
            start = Dlsn.parse(fields["start"])
            marked_lssn, marked_ms = map(int, fields["marked"])
        except (InvalidArgumentError, TypeError, ValueError) as error:
            raise CorruptionError(f"stream {name}: {error}") from error
        return cls(
            identity=fields["identity"],
            created_ms=fields["created_ms"],
            policy=None if policy is None else StreamPolicy.from_fields(policy),
            start=start,
            first_lssn=fields["first_lssn"],
            purging_lssn=max(fields["first_lssn"], fields["purging_lssn"]),
            marked_lssn=marked_lssn,
            marked_ms=marked_ms,
            is_deleting=fields["is_deleting"],
            is_moving=is_moving,
        )


_STREAM: dict[str, type | tuple[type, ...]] = {
    "identity": str,
    "created_ms": int,
    "policy": (dict, type(None)),
    "start": str,
    "first_lssn": int,
    "marked": list,
    "is_deleting": bool,
    "purging_lssn": int,
}


@dataclass(frozen=True, slots=True)
class StreamHead:
    """The claim of the current writer and the last segment of a stream.

    Every change is a compare-and-set by the claimant on the value that it wrote itself.
    """

    epoch: int = 0
    """The number of claims so far."""
    token: str = _FREE
    """The random token of the writer that claimed last."""
    last_lssn: int = NO_SEGMENT
    """The number of the last published segment."""
    stream_id: str = ""
    """``StreamRecord.stream_id``, so that a claim shows which stream it is of."""
    is_sealed: bool = False
    """True if no segment may follow until the stream is unsealed (rule STR-33)."""

    def claimed(self, token: str) -> "StreamHead":
        """Return the head with another claim. A seal stays."""
        assert token not in (_FREE, self.token, _DELETION, MOVE)
        return replace(self, epoch=self.epoch + 1, token=token)

    @property
    def is_deleting(self) -> bool:
        """True if the stream is being deleted and can never be claimed again."""
        return self.token == _DELETION

    def deleted(self) -> "StreamHead":
        """Return the head as claimed permanently by the deletion of the stream."""
        return replace(self, epoch=self.epoch + 1, token=_DELETION)

    @property
    def is_moving(self) -> bool:
        """True if the namespace of the stream is being moved to another store."""
        return self.token == MOVE

    def moving(self) -> "StreamHead":
        """Return the head as claimed by the move of the namespace."""
        return replace(self, epoch=self.epoch + 1, token=MOVE)

    def moved(self) -> "StreamHead":
        """Return the head as free again, after the move or in place of it."""
        return replace(self, token=_FREE)

    def extended(self) -> "StreamHead":
        """Return the head with one more segment."""
        assert not self.is_sealed, "a sealed stream gets no segment (rule STR-33)"
        return replace(self, last_lssn=self.last_lssn + 1)

    def encode(self) -> bytes:
        """Encode the value of the node."""
        fields = {
            "epoch": self.epoch,
            "token": self.token,
            "last_lssn": self.last_lssn,
            "stream_id": self.stream_id,
        }
        return encode_metadata_record(_SEALED_FORMAT if self.is_sealed else _FORMAT, fields)

    @classmethod
    def decode(cls, name: str, data: bytes) -> "StreamHead":
        """Decode the value of the node. Raises CorruptionError, ForeignDataError."""
        is_sealed = metadata_record_version(data) == _SEALED_FORMAT
        fields = decode_metadata_record(
            f"head of stream {name}",
            data,
            version=_SEALED_FORMAT if is_sealed else _FORMAT,
            fields={"epoch": int, "token": str, "last_lssn": int, "stream_id": str},
        )
        return cls(**fields, is_sealed=is_sealed)
