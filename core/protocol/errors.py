"""The one error tree of Rhumbline.

Every class says, as class attributes, what a caller can do about it:

- ``code``: stable text that travels on the wire and in JSON output;
- ``retryable``: the same call may succeed later without anybody changing anything;
- ``refresh``: cached metadata must be read again before a retry;
- ``blame``: who has to act: ``caller`` (the request is wrong), ``peer`` (another process or the
  network), ``us`` (a bug or damaged local state).

An operation whose outcome is unknown (it may have happened) is its own kind and never a plain
time-out, because retrying it blindly can double it.
"""

from typing import ClassVar, Literal

Blame = Literal["caller", "peer", "us"]


class RhumblineError(Exception):
    """Root of the tree; catching it catches everything that Rhumbline raises on purpose."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    refresh: ClassVar[bool] = False
    blame: ClassVar[Blame] = "us"


# --- refused: the request cannot be served as it is ---------------------------------------------


class RefusedError(RhumblineError):
    """The request was understood and refused; nothing of it happened."""

    code = "refused"
    blame: ClassVar[Blame] = "caller"


class InvalidArgumentError(RefusedError):
    """A value that came from a user or a configuration is outside of what is allowed."""

    code = "invalid-argument"


class ConfigurationError(InvalidArgumentError):
    """A configuration file, option or combination of options is wrong."""

    code = "configuration"


class IllegalQuorumError(InvalidArgumentError):
    """E, WQ, AQ and R do not fit together, or no ensemble could ever satisfy them."""

    code = "illegal-quorum"


class LimitExceededError(RefusedError):
    """A size, count or rate is above its limit; the message names the limit and its value."""

    code = "limit-exceeded"


class RecordTooLargeError(LimitExceededError):
    """A record (or the entry that it would make) is larger than the limit."""

    code = "record-too-large"


class NoSuchNamespaceError(RefusedError):
    """The namespace does not exist in this metadata store."""

    code = "no-such-namespace"


class NamespaceExistsError(RefusedError):
    """The namespace exists already."""

    code = "namespace-exists"


class NoSuchStreamError(RefusedError):
    """The stream does not exist in this namespace."""

    code = "no-such-stream"


class StreamExistsError(RefusedError):
    """The stream exists already."""

    code = "stream-exists"


class NoSuchSubscriptionError(RefusedError):
    """The stream has no subscription of this name."""

    code = "no-such-subscription"


class DuplicateRecordError(RefusedError):
    """The producer's sequence is in the stream already: the retry succeeded before."""

    code = "duplicate-record"


class SequenceGapError(RefusedError):
    """The producer's sequence skips numbers: records before it never arrived here."""

    code = "sequence-gap"


class TxidOutOfOrderError(RefusedError):
    """A record's txid is below the one before it."""

    code = "txid-out-of-order"


class EndOfStreamError(RefusedError):
    """The stream was sealed by its application: no more appends, and readers are at its end."""

    code = "end-of-stream"


class ClosedError(RefusedError):
    """The writer, reader, ledger or connection was closed by its own user."""

    code = "closed"


class UnauthorizedError(RefusedError):
    """Wrong ledger password, token or permission."""

    code = "unauthorized"


class WrongClusterError(RefusedError):
    """Data of another cluster or another bookie: refused, because serving it would be a lie."""

    code = "wrong-cluster"


class ForeignDataError(RefusedError):
    """A directory or store holds something that is not ours, or of a newer format."""

    code = "foreign-data"


# --- lost: somebody else has the right to write -------------------------------------------------


class OwnershipLostError(RhumblineError):
    """Another writer or recoverer took over, at once and for good."""

    code = "ownership-lost"
    refresh = True
    blame: ClassVar[Blame] = "peer"


class LedgerFencedError(OwnershipLostError):
    """The ledger was fenced by a recoverer: this writer can never append to it again."""

    code = "ledger-fenced"


class LedgerClosedError(OwnershipLostError):
    """The ledger is closed in the metadata store."""

    code = "ledger-closed"


class StreamLostError(OwnershipLostError):
    """Another writer claimed the stream."""

    code = "stream-lost"


# --- not there ----------------------------------------------------------------------------------


class NoSuchLedgerError(RhumblineError):
    """The ledger does not exist (metadata), or provably never had entries here (bookie)."""

    code = "no-such-ledger"
    refresh = True
    blame: ClassVar[Blame] = "peer"


class NoSuchEntryError(RhumblineError):
    """The bookie can prove that it never had this entry."""

    code = "no-such-entry"
    blame: ClassVar[Blame] = "peer"


class NoSuchObjectError(RefusedError):
    """The cold store has no object under this key."""

    code = "no-such-object"


class TruncatedError(RefusedError):
    """The position is below the stream's start. ``first_active`` says where to go on."""

    code = "truncated"

    def __init__(self, message: str, first_active: object = None) -> None:
        super().__init__(message)
        self.first_active = first_active


class GapError(RhumblineError):
    """Records that should be there are not: reading on would skip them."""

    code = "gap"


class StreamIdleError(RhumblineError):
    """Nothing came for as long as the reader may wait, and a quorum says that nothing is there."""

    code = "stream-idle"
    retryable = True
    blame: ClassVar[Blame] = "peer"


# --- unavailable: try again ---------------------------------------------------------------------


class UnavailableError(RhumblineError):
    """Something that is needed is not reachable now; nothing of the request happened."""

    code = "unavailable"
    retryable = True
    blame: ClassVar[Blame] = "peer"


class ReaderStalledError(UnavailableError):
    """Nothing came for as long as the reader may wait, but something is there, or nobody can tell.

    The cause, if there is one, is what went wrong when it was asked for.
    """

    code = "reader-stalled"


class BookieUnavailableError(UnavailableError):
    """The bookie cannot be reached, or closed the connection."""

    code = "bookie-unavailable"


class NotEnoughBookiesError(UnavailableError):
    """No legal ensemble can be made from the writable bookies."""

    code = "not-enough-bookies"


class ReadOnlyError(UnavailableError):
    """The bookie takes no adds (full or failed disk, or by command)."""

    code = "read-only"


class TooManyRequestsError(UnavailableError):
    """The peer's queue is full."""

    code = "too-many-requests"


class OverRateError(TooManyRequestsError):
    """A rate is above its limit. ``retry_after_ms`` says how long to wait."""

    code = "over-rate"

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class NotOwnerError(UnavailableError):
    """This proxy does not serve the stream. ``owner`` is the address of who does; "": unknown."""

    code = "not-owner"
    refresh = True

    def __init__(self, message: str, owner: str = "") -> None:
        super().__init__(message)
        self.owner = owner


class DiskFullError(UnavailableError):
    """No space left for new entries."""

    code = "disk-full"
    blame: ClassVar[Blame] = "us"


class DiskFailedError(UnavailableError):
    """The operating system reported an I/O error."""

    code = "disk-failed"
    blame: ClassVar[Blame] = "us"


class UnknownStateError(UnavailableError):
    """The bookie has no right to say yes or no now (limbo, damaged log, other incarnation)."""

    code = "unknown-state"


class RecoveryIncompleteError(UnavailableError):
    """Too few bookies answered to decide where the ledger ends; nothing was decided."""

    code = "recovery-incomplete"


class DeadlineExceededError(UnavailableError):
    """The deadline passed before an answer; for requests that change nothing."""

    code = "deadline-exceeded"


# --- unknown outcome ----------------------------------------------------------------------------


class UnknownOutcomeError(RhumblineError):
    """It may have happened or not: read, compare, and only then retry."""

    code = "unknown-outcome"
    refresh = True
    blame: ClassVar[Blame] = "peer"


class AppendOutcomeUnknownError(UnknownOutcomeError):
    """The record may or may not become part of the stream."""

    code = "append-outcome-unknown"


# --- corrupt ------------------------------------------------------------------------------------


class CorruptionError(RhumblineError):
    """Bytes that do not match their checksum, identity or format. Never served, never a 'no'."""

    code = "corrupt"


class ProtocolError(RhumblineError):
    """A peer sent bytes that break the protocol; its connection is closed."""

    code = "protocol"
    blame: ClassVar[Blame] = "peer"


class InvariantBrokenError(RhumblineError):
    """A bug: a component found its own state impossible and stopped."""

    code = "bug"


# --- metadata store -----------------------------------------------------------------------------


class MetadataError(RhumblineError):
    """Root of what a metadata store raises."""

    code = "metadata"
    blame: ClassVar[Blame] = "peer"


class NoNodeError(MetadataError):
    """The node does not exist."""

    code = "no-node"
    refresh = True


class NodeExistsError(MetadataError):
    """The node exists already."""

    code = "node-exists"
    refresh = True


class NotEmptyError(MetadataError):
    """The node has children and cannot be deleted."""

    code = "not-empty"


class BadVersionError(MetadataError):
    """The node's version is not the expected one: somebody changed it."""

    code = "bad-version"
    refresh = True


class SessionLostError(MetadataError):
    """The session expired: its ephemeral nodes are gone or will be, without further notice."""

    code = "session-lost"


class MetadataUnavailableError(MetadataError, UnavailableError):
    """The store cannot be reached now and the request was certainly not carried out."""

    code = "metadata-unavailable"
    retryable = True


class IndeterminateError(MetadataError, UnknownOutcomeError):
    """The outcome of a write is unknown: read again and compare by a writer token."""

    code = "indeterminate"
    refresh = True


class StoreFencedError(MetadataError):
    """This store was fenced by a migration: writes go to its successor."""

    code = "store-fenced"
    refresh = True


def error_classes() -> dict[str, type[RhumblineError]]:
    """All classes of this module by ``code``, for mapping to and from the wire.

    A class that some module derives for itself travels as the one of this tree that it extends.
    Raises ``AssertionError`` if two classes share a code.
    """
    found: dict[str, type[RhumblineError]] = {}
    waiting: list[type[RhumblineError]] = [RhumblineError]
    while waiting:
        cls = waiting.pop()
        known = found.setdefault(cls.code, cls)
        assert known is cls, f"{known.__name__} and {cls.__name__} share the code {cls.code}"
        ours = [sub for sub in cls.__subclasses__() if sub.__module__ == __name__]
        waiting.extend(sub for sub in ours if sub not in waiting)
    return found
