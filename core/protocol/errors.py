"""All errors that Rhumbline raises deliberately, in one class hierarchy.

The first sentence of each class describes the failure, the second what the caller should do. Class
attributes say the same to programs:

- ``code``: a stable string, used on the wire and in JSON output;
- ``retryable``: the same call may succeed later although the caller changes nothing;
- ``refresh``: cached metadata must be read again before a retry;
- ``blame``: the party that has to act: ``caller`` (the request is wrong), ``peer`` (another process
  or the network), ``us`` (a bug, or damaged local state).

An operation whose outcome is unknown (it may have been carried out) raises an
``UnknownOutcomeError`` and never a plain timeout: a blind retry could carry it out twice.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from .dlsn import Dlsn

Blame = Literal["caller", "peer", "us"]


class RhumblineError(Exception):
    """A request failed; this is the root of all errors that Rhumbline raises on purpose.

    Catch a subclass to decide what to do, or read ``retryable``, ``refresh`` and ``blame``.
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    refresh: ClassVar[bool] = False
    blame: ClassVar[Blame] = "us"


# --- refused: nothing was carried out, and a plain retry is refused again -----------------------


class RefusedError(RhumblineError):
    """The request was understood and refused; nothing of it was carried out.

    Change the request, or the state that the message names: a plain retry is refused again.
    """

    code = "refused"
    blame: ClassVar[Blame] = "caller"


class InvalidArgumentError(RefusedError):
    """A value from the caller or from a configuration is outside its allowed range.

    Correct the value; the message names the allowed range.
    """

    code = "invalid-argument"


class PayloadError(InvalidArgumentError):
    """A value cannot be encoded as a payload, or a payload does not hold what its reader expects.

    Correct the value, or skip the record, for example into a dead-letter stream.
    """

    code = "invalid-payload"


class IncompatibleSchemaError(RefusedError):
    """The schema of a program does not have the relation to the stream's schemas that is required.

    Change the schema as the message says, or the compatibility of the stream.
    """

    code = "incompatible-schema"


class InvalidPositionError(InvalidArgumentError):
    """A position is of another stream, or one that the stream cannot have.

    Begin at another position; the message says what is wrong with this one.
    """

    code = "invalid-position"


class ConfigurationError(InvalidArgumentError):
    """A configuration file, an option or a combination of options is wrong.

    Correct the setting that the message names and start again.
    """

    code = "configuration"


class PluginError(ConfigurationError):
    """A store that an installed package adds cannot be imported, or breaks its interface.

    Repair, update or uninstall the package that the message names.
    """

    code = "plugin"


class IllegalQuorumError(InvalidArgumentError):
    """E, WQ, AQ and R do not fit together, or no ensemble can ever satisfy them.

    Choose other numbers; ``rhumbline plan`` shows which ones a deployment supports.
    """

    code = "illegal-quorum"


class LimitExceededError(RefusedError):
    """A size, count or rate is above its limit; the message names the limit and its value.

    Send less, or raise the limit if it is configurable.
    """

    code = "limit-exceeded"


class RecordTooLargeError(LimitExceededError):
    """A record, or the entry that would hold it, is larger than the limit.

    Split the record, or store the payload elsewhere and append a reference.
    """

    code = "record-too-large"


class FeatureLevelError(RefusedError):
    """The cluster is at a feature level that this program does not know, or too low for a request.

    Install the version of the program that the message asks for, or raise the level; the cluster
    cannot go back.
    """

    code = "feature-level"


class NoSuchNamespaceError(RefusedError):
    """The namespace does not exist in this metadata store.

    Create the namespace, or correct its name.
    """

    code = "no-such-namespace"


class NamespaceExistsError(RefusedError):
    """A namespace of this name already exists.

    Use the existing namespace, or choose another name.
    """

    code = "namespace-exists"


class NoSuchStreamError(RefusedError):
    """The stream does not exist in this namespace, or was deleted.

    Create the stream, or correct its name.
    """

    code = "no-such-stream"


class StreamExistsError(RefusedError):
    """A stream of this name already exists.

    Open the existing stream, or choose another name.
    """

    code = "stream-exists"


class NoSuchSubscriptionError(RefusedError):
    """The stream has no subscription of this name.

    Create the subscription, or correct its name.
    """

    code = "no-such-subscription"


class DuplicateRecordError(RefusedError):
    """The producer's sequence number is already in the stream: an earlier attempt succeeded.

    Treat the record as appended; do not send it again.
    """

    code = "duplicate-record"


class SequenceGapError(RefusedError):
    """The producer's sequence skips numbers: earlier records never arrived.

    Send the records again, beginning with the first one that was not acknowledged.
    """

    code = "sequence-gap"


class TxidOutOfOrderError(RefusedError):
    """A record's txid is below the txid of the record before it.

    Append with a txid that is at least the last one in the stream.
    """

    code = "txid-out-of-order"


class EndMismatchError(RefusedError):
    """The stream does not end at the position that a conditional append expected; it added nothing.

    Read the records up to ``end``, decide again and append with the new position.
    """

    code = "end-mismatch"

    def __init__(self, message: str, end: "Dlsn | None" = None) -> None:
        super().__init__(message)
        self.end = end


class EndOfStreamError(RefusedError):
    """The application ended the stream: it accepts no more records, and the reader has all of them.

    Stop appending or reading; the stream never continues.
    """

    code = "end-of-stream"


class StreamSealedError(RefusedError):
    """An operator sealed the stream: it accepts no more records until it is unsealed.

    Stop appending, or unseal the stream with ``rhumbline stream unseal`` and open a writer again.
    """

    code = "stream-sealed"


class ClosedError(RefusedError):
    """The caller has already closed this writer, reader, ledger or connection.

    Open a new one if there is more to do.
    """

    code = "closed"


class UnauthorizedError(RefusedError):
    """The ledger password, token or permission was rejected.

    Correct the credentials; a retry with the same ones fails again.
    """

    code = "unauthorized"


class PermissionDeniedError(UnauthorizedError):
    """The caller is known, and no grant allows what it asked for, or one denies it.

    Ask an administrator for a grant; ``rhumbline access explain`` says why a call is refused.
    """

    code = "permission-denied"


class WrongPortError(RefusedError):
    """This listener of the proxy does not serve the call; another listener of it does.

    Call ``address``, a host:port: that of operators for administration, that of clients for data.
    """

    code = "wrong-port"

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class WrongClusterError(RefusedError):
    """Data belongs to another cluster or another bookie, and is refused.

    Check the metadata URI, the directories and the bookie id before starting again.
    """

    code = "wrong-cluster"


class ForeignDataError(RefusedError):
    """A directory or store holds data of another program, or of a newer format.

    Use another directory, or a version of Rhumbline that knows the format; nothing was changed.
    """

    code = "foreign-data"


# --- ownership lost: another process may write now ----------------------------------------------


class OwnershipLostError(RhumblineError):
    """Another writer or a recovery took the ledger or stream over permanently.

    Stop writing; read the metadata again to find the new owner.
    """

    code = "ownership-lost"
    refresh = True
    blame: ClassVar[Blame] = "peer"


class LedgerFencedError(OwnershipLostError):
    """A recovery fenced the ledger: this writer can never append to it again.

    Stop writing to the ledger; open the stream again if this process should own it.
    """

    code = "ledger-fenced"


class LedgerClosedError(OwnershipLostError):
    """The ledger is closed in the metadata store.

    Read the ledger, or write to a new one.
    """

    code = "ledger-closed"


class StreamLostError(OwnershipLostError):
    """Another writer claimed the stream.

    Stop writing; open the stream again only if this process should take it back.
    """

    code = "stream-lost"


class SubscriptionLostError(OwnershipLostError):
    """Another consumer took the subscription over, or it was reset.

    What was not stored yet is delivered again; open the subscription again to continue.
    """

    code = "subscription-lost"


# --- not found ----------------------------------------------------------------------------------


class NoSuchLedgerError(RhumblineError):
    """The ledger does not exist, or (from a bookie) it provably never had entries there.

    Read the metadata again; if the ledger is not there either, it was deleted.
    """

    code = "no-such-ledger"
    refresh = True
    blame: ClassVar[Blame] = "peer"


class NoSuchEntryError(RhumblineError):
    """The bookie can prove that it never stored this entry.

    Read the entry from another bookie of its write set.
    """

    code = "no-such-entry"
    blame: ClassVar[Blame] = "peer"


class NoSuchObjectError(RefusedError):
    """The cold store has no object under this key.

    Check the key; an object that was listed may have been deleted since.
    """

    code = "no-such-object"


class TruncatedError(RefusedError):
    """The position is below the start of the stream: its records were truncated.

    Continue at ``first_active``; the records before it can no longer be read.
    """

    code = "truncated"

    def __init__(self, message: str, first_active: "Dlsn | None" = None) -> None:
        super().__init__(message)
        self.first_active = first_active


class GapError(RhumblineError):
    """Records that should exist are missing: reading on would skip them.

    Stop and report it; an operator has to find the missing entries.
    """

    code = "gap"


class StreamIdleError(RhumblineError):
    """No record arrived within the time limit, and a quorum confirmed that there is none.

    Read on to wait longer: the writer may be idle or stopped.
    """

    code = "stream-idle"
    retryable = True
    blame: ClassVar[Blame] = "peer"


# --- unavailable: retry later -------------------------------------------------------------------


class UnavailableError(RhumblineError):
    """Something that the request needs is unreachable now; nothing was carried out.

    Retry with backoff.
    """

    code = "unavailable"
    retryable = True
    blame: ClassVar[Blame] = "peer"


class ReaderStalledError(UnavailableError):
    """No record arrived within the time limit, although records exist or may exist.

    Read on to retry; ``__cause__`` holds the error of the last attempt, if there was one.
    """

    code = "reader-stalled"


class BookieUnavailableError(UnavailableError):
    """The bookie cannot be reached, or closed the connection.

    Retry with backoff, or use another bookie of the write set.
    """

    code = "bookie-unavailable"


class NotEnoughBookiesError(UnavailableError):
    """No legal ensemble can be formed from the writable bookies.

    Retry once more bookies or regions are up; the message names the rule that fails.
    """

    code = "not-enough-bookies"


class NamespaceMovingError(UnavailableError):
    """The namespace is being moved to another metadata store; nothing was carried out.

    Retry with backoff until the move is over; if it was interrupted, an operator has to repeat it.
    """

    code = "namespace-moving"
    refresh = True


class ReadOnlyError(UnavailableError):
    """The bookie takes no adds: its disk is full or failed, or an operator made it read-only.

    Write to another bookie; retry here after it is writable again.
    """

    code = "read-only"


class TooManyRequestsError(UnavailableError):
    """The peer's request queue is full.

    Retry with backoff.
    """

    code = "too-many-requests"


class OverRateError(TooManyRequestsError):
    """A rate is above its limit.

    Wait ``retry_after_ms`` milliseconds, then retry.
    """

    code = "over-rate"

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class QuotaExceededError(OverRateError):
    """The quota of a principal, a namespace or a stream is used up; nothing was carried out.

    Wait ``retry_after_ms`` milliseconds, then retry; or ask an operator for a larger quota.
    """

    code = "quota-exceeded"


class NotOwnerError(UnavailableError):
    """This proxy does not serve the stream.

    Send the request to ``owner``, an address; if it is empty, the owner is unknown: look it up.
    """

    code = "not-owner"
    refresh = True

    def __init__(self, message: str, owner: str = "") -> None:
        super().__init__(message)
        self.owner = owner


class DiskFullError(UnavailableError):
    """The disk has no space left for new entries.

    Free or add space; retry elsewhere in the meantime.
    """

    code = "disk-full"
    blame: ClassVar[Blame] = "us"


class DiskFailedError(UnavailableError):
    """The operating system reported an I/O error.

    Replace the disk if it persists; retry elsewhere in the meantime.
    """

    code = "disk-failed"
    blame: ClassVar[Blame] = "us"


class UnknownStateError(UnavailableError):
    """The bookie can neither confirm nor deny now (limbo, damaged log, other incarnation).

    The response proves nothing: ask other bookies, and retry later.
    """

    code = "unknown-state"


class RecoveryIncompleteError(UnavailableError):
    """Too few bookies answered to decide where the ledger ends; nothing was decided.

    Retry the recovery once more bookies are up.
    """

    code = "recovery-incomplete"


class DeletionPendingError(UnavailableError):
    """A stream is marked for deletion, but too few bookies answered to stop its old writer.

    Repeat the deletion once more bookies are up; until then nothing is deleted.
    """

    code = "deletion-pending"


class DeadlineExceededError(UnavailableError):
    """The deadline passed before a response came, or before the state that was waited for.

    Raised to callers for requests that change nothing, and for waiting: retry, with a longer
    deadline if the peer is slow. The failure of a writer may be this error too: then records that
    were not acknowledged may be stored or not.
    """

    code = "deadline-exceeded"


# --- unknown outcome ----------------------------------------------------------------------------


class UnknownOutcomeError(RhumblineError):
    """The request may have been carried out or not.

    Read the state, compare it with the intended one, and only then retry.
    """

    code = "unknown-outcome"
    refresh = True
    blame: ClassVar[Blame] = "peer"


class AppendOutcomeUnknownError(UnknownOutcomeError):
    """The record may or may not become part of the stream.

    Retry with the same producer sequence, or read the end of the stream before appending again.
    """

    code = "append-outcome-unknown"


# --- corrupt ------------------------------------------------------------------------------------


class CorruptionError(RhumblineError):
    """Bytes do not match their checksum, identity or format; they are never served or used.

    Read another copy; if all copies are damaged, restore from the archive.
    """

    code = "corrupt"


class ProtocolError(RhumblineError):
    """A peer sent bytes that break the protocol; its connection is closed.

    Check that address, port and version belong to the expected service.
    """

    code = "protocol"
    blame: ClassVar[Blame] = "peer"


class InvariantBrokenError(RhumblineError):
    """A component found its own state impossible and stopped: this is a bug.

    Restart the process and report the error with its message and its ``story``: the last
    transitions of the component, which a traceback also shows; empty if there is none.
    """

    code = "bug"

    def __init__(self, message: str = "", story: str = "") -> None:
        super().__init__(message)
        self.story = story
        if story:
            self.add_note(f"its last transitions:\n{story}")


# --- metadata store -----------------------------------------------------------------------------


class MetadataError(RhumblineError):
    """The metadata store reported an error; root of all errors that a store raises.

    Catch a subclass to decide what to do.
    """

    code = "metadata"
    blame: ClassVar[Blame] = "peer"


class NoNodeError(MetadataError):
    """The node does not exist.

    Read the parent again; create the node if it should exist.
    """

    code = "no-node"
    refresh = True


class NodeExistsError(MetadataError):
    """The node already exists.

    Read the node and decide whether its value will do.
    """

    code = "node-exists"
    refresh = True


class NotEmptyError(MetadataError):
    """The node has children and cannot be deleted.

    Delete the children first.
    """

    code = "not-empty"


class BadVersionError(MetadataError):
    """The node's version is not the expected one: another process changed the node.

    Read the node again, decide again, and write with the new version.
    """

    code = "bad-version"
    refresh = True


class SessionLostError(MetadataError):
    """The session expired: the store removes its ephemeral nodes, or has removed them already.

    Open a new session and create the ephemeral nodes again.
    """

    code = "session-lost"


class MetadataUnavailableError(MetadataError, UnavailableError):
    """The store is unreachable now, and the request was certainly not carried out.

    Retry with backoff.
    """

    code = "metadata-unavailable"
    retryable = True


class IndeterminateError(MetadataError, UnknownOutcomeError):
    """The outcome of a write to the store is unknown.

    Read the node again and compare its content (a writer's token) before retrying.
    """

    code = "indeterminate"
    refresh = True


class StoreFencedError(MetadataError):
    """A migration fenced this store: writes go to its successor.

    Open the successor that the message names.
    """

    code = "store-fenced"
    refresh = True


def error_classes() -> dict[str, type[RhumblineError]]:
    """Return all classes of this module by ``code``, for mapping to and from the wire.

    A subclass that another module defines is sent as the class of this module that it extends.
    Raises ``AssertionError`` if two classes share a code.
    """
    by_code: dict[str, type[RhumblineError]] = {}
    unvisited: list[type[RhumblineError]] = [RhumblineError]
    while unvisited:
        cls = unvisited.pop()
        known = by_code.setdefault(cls.code, cls)
        assert known is cls, f"{known.__name__} and {cls.__name__} share the code {cls.code}"
        subclasses = [sub for sub in cls.__subclasses__() if sub.__module__ == __name__]
        unvisited.extend(sub for sub in subclasses if sub not in unvisited)
    return by_code
