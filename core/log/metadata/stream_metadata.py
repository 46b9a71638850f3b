"""What the metadata store says of namespaces and streams (segments are in core/protocol).

Two nodes a stream, because two parties change them: the *record* is the administrators' (policy,
truncation), the *head* is the writers' (who may write, which segment is the last). So truncating
never disturbs a writer, and a writer that finds its head changed knows that it has lost the stream.
"""

from dataclasses import dataclass, replace

from ...protocol.dlsn import FIRST_DLSN, Dlsn
from ...protocol.errors import CorruptionError, InvalidArgumentError
from ...protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...protocol.segments import FIRST_LSSN, NO_SEGMENT
from ..policy import StreamPolicy

_FORMAT = 1

_DELETION = "deletion"
"""The token of a head that nobody can claim again; those of writers are random."""


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """A namespace: the policy of its streams, and the token of who created it."""

    token: str
    created_ms: int
    policy: StreamPolicy

    def encode(self) -> bytes:
        """The value of its node."""
        return encode_metadata_record(
            _FORMAT,
            {
                "token": self.token,
                "created_ms": self.created_ms,
                "policy": self.policy.to_fields(),
            },
        )

    @classmethod
    def decode(cls, name: str, data: bytes) -> "NamespaceRecord":
        """Reads its node. Raises CorruptionError, ForeignDataError."""
        fields = decode_metadata_record(
            f"namespace {name}",
            data,
            version=_FORMAT,
            fields={"token": str, "created_ms": int, "policy": dict},
        )
        return cls(
            fields["token"], fields["created_ms"], StreamPolicy.from_fields(fields["policy"])
        )


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """What administrators say of a stream."""

    identity: str
    """Random; differs when a stream is deleted and created again under its name."""
    created_ms: int
    policy: StreamPolicy | None = None
    """None: the namespace's."""
    start: Dlsn = FIRST_DLSN
    """What is below was truncated: no reader may see it. Only moves forward."""
    first_lssn: int = FIRST_LSSN
    """The first segment whose metadata is still there; never above ``start``."""
    marked_lssn: int = FIRST_LSSN
    """Segments below it were truncated at ``marked_ms`` or earlier: the grace before purging."""
    marked_ms: int = 0
    is_deleting: bool = False
    """Deletion has begun and goes on, whoever repeats it."""

    def truncated(self, start: Dlsn) -> "StreamRecord":
        """With the start moved forward to ``start`` (never back)."""
        return self if start <= self.start else replace(self, start=start)

    def marked(self, now_ms: int) -> "StreamRecord":
        """Noting that what is truncated now was truncated by ``now_ms``."""
        if self.start.lssn <= self.marked_lssn:
            return self
        return replace(self, marked_lssn=self.start.lssn, marked_ms=now_ms)

    def purged(self, first_lssn: int) -> "StreamRecord":
        """Without the segments below ``first_lssn``, all of which are truncated."""
        assert first_lssn <= self.marked_lssn <= self.start.lssn, "only truncated segments go"
        return replace(self, first_lssn=max(first_lssn, self.first_lssn))

    def encode(self) -> bytes:
        """The value of its node."""
        return encode_metadata_record(
            _FORMAT,
            {
                "identity": self.identity,
                "created_ms": self.created_ms,
                "policy": None if self.policy is None else self.policy.to_fields(),
                "start": str(self.start),
                "first_lssn": self.first_lssn,
                "marked": [self.marked_lssn, self.marked_ms],
                "is_deleting": self.is_deleting,
            },
        )

    @classmethod
    def decode(cls, name: str, data: bytes) -> "StreamRecord":
        """Reads its node. Raises CorruptionError, ForeignDataError."""
        fields = decode_metadata_record(f"stream {name}", data, version=_FORMAT, fields=_STREAM)
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
            marked_lssn=marked_lssn,
            marked_ms=marked_ms,
            is_deleting=fields["is_deleting"],
        )


_STREAM: dict[str, type | tuple[type, ...]] = {
    "identity": str,
    "created_ms": int,
    "policy": (dict, type(None)),
    "start": str,
    "first_lssn": int,
    "marked": list,
    "is_deleting": bool,
}


@dataclass(frozen=True, slots=True)
class StreamHead:
    """Who writes, and which segment is the last.

    Every change is made by the claimant, by compare-and-set on the value that it wrote itself.
    """

    epoch: int = 0
    """Counts claims."""
    token: str = ""
    """Random, of the writer that claimed last."""
    last_lssn: int = NO_SEGMENT

    def claimed(self, token: str) -> "StreamHead":
        """Claimed by another writer."""
        assert token not in ("", self.token, _DELETION)
        return replace(self, epoch=self.epoch + 1, token=token)

    @property
    def is_deleting(self) -> bool:
        """Whether the stream is being deleted: nobody may claim it any more."""
        return self.token == _DELETION

    def deleted(self) -> "StreamHead":
        """Claimed by the deletion of the stream, for good."""
        return replace(self, epoch=self.epoch + 1, token=_DELETION)

    def extended(self) -> "StreamHead":
        """With one segment more."""
        return replace(self, last_lssn=self.last_lssn + 1)

    def encode(self) -> bytes:
        """The value of its node."""
        return encode_metadata_record(
            _FORMAT, {"epoch": self.epoch, "token": self.token, "last_lssn": self.last_lssn}
        )

    @classmethod
    def decode(cls, name: str, data: bytes) -> "StreamHead":
        """Reads its node. Raises CorruptionError, ForeignDataError."""
        fields = decode_metadata_record(
            f"head of stream {name}",
            data,
            version=_FORMAT,
            fields={"epoch": int, "token": str, "last_lssn": int},
        )
        return cls(**fields)
