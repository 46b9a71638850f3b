"""The error tree: codes are unique, and each class says what happened and what to do."""

import inspect
from typing import get_type_hints

import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    NotOwnerError,
    OverRateError,
    RhumblineError,
    TruncatedError,
    error_classes,
)

CLASSES = sorted(error_classes().items())


def test_error_codes_are_unique() -> None:
    assert error_classes()["stream-lost"].refresh


@pytest.mark.parametrize(("code", "cls"), CLASSES, ids=[code for code, _ in CLASSES])
def test_every_error_says_what_happened_and_what_to_do(
    code: str, cls: type[RhumblineError]
) -> None:
    happened, _, advice = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
    assert happened.endswith(".") and "\n" not in happened
    assert advice.endswith(".")


def test_first_active_of_a_truncation_is_typed_as_a_position() -> None:
    """It was typed ``object``, so that every caller had to narrow it."""
    hints = get_type_hints(TruncatedError.__init__, {"Dlsn": Dlsn})
    assert hints["first_active"] == Dlsn | None


STABLE = [
    ("append-outcome-unknown", "AppendOutcomeUnknownError", "peer", False, True),
    ("bad-version", "BadVersionError", "peer", False, True),
    ("bookie-unavailable", "BookieUnavailableError", "peer", True, False),
    ("bug", "InvariantBrokenError", "us", False, False),
    ("closed", "ClosedError", "caller", False, False),
    ("configuration", "ConfigurationError", "caller", False, False),
    ("corrupt", "CorruptionError", "us", False, False),
    ("deadline-exceeded", "DeadlineExceededError", "peer", True, False),
    ("deletion-pending", "DeletionPendingError", "peer", True, False),
    ("disk-failed", "DiskFailedError", "us", True, False),
    ("disk-full", "DiskFullError", "us", True, False),
    ("duplicate-record", "DuplicateRecordError", "caller", False, False),
    ("end-mismatch", "EndMismatchError", "caller", False, False),
    ("end-of-stream", "EndOfStreamError", "caller", False, False),
    ("feature-level", "FeatureLevelError", "caller", False, False),
    ("foreign-data", "ForeignDataError", "caller", False, False),
    ("gap", "GapError", "us", False, False),
    ("illegal-quorum", "IllegalQuorumError", "caller", False, False),
    ("incompatible-schema", "IncompatibleSchemaError", "caller", False, False),
    ("indeterminate", "IndeterminateError", "peer", False, True),
    ("internal", "RhumblineError", "us", False, False),
    ("invalid-argument", "InvalidArgumentError", "caller", False, False),
    ("invalid-payload", "PayloadError", "caller", False, False),
    ("invalid-position", "InvalidPositionError", "caller", False, False),
    ("ledger-closed", "LedgerClosedError", "peer", False, True),
    ("ledger-fenced", "LedgerFencedError", "peer", False, True),
    ("limit-exceeded", "LimitExceededError", "caller", False, False),
    ("metadata", "MetadataError", "peer", False, False),
    ("metadata-unavailable", "MetadataUnavailableError", "peer", True, False),
    ("namespace-exists", "NamespaceExistsError", "caller", False, False),
    ("namespace-moving", "NamespaceMovingError", "peer", True, True),
    ("no-node", "NoNodeError", "peer", False, True),
    ("no-such-entry", "NoSuchEntryError", "peer", False, False),
    ("no-such-ledger", "NoSuchLedgerError", "peer", False, True),
    ("no-such-namespace", "NoSuchNamespaceError", "caller", False, False),
    ("no-such-object", "NoSuchObjectError", "caller", False, False),
    ("no-such-stream", "NoSuchStreamError", "caller", False, False),
    ("no-such-subscription", "NoSuchSubscriptionError", "caller", False, False),
    ("node-exists", "NodeExistsError", "peer", False, True),
    ("not-empty", "NotEmptyError", "peer", False, False),
    ("not-enough-bookies", "NotEnoughBookiesError", "peer", True, False),
    ("not-owner", "NotOwnerError", "peer", True, True),
    ("over-rate", "OverRateError", "peer", True, False),
    ("ownership-lost", "OwnershipLostError", "peer", False, True),
    ("permission-denied", "PermissionDeniedError", "caller", False, False),
    ("plugin", "PluginError", "caller", False, False),
    ("protocol", "ProtocolError", "peer", False, False),
    ("quota-exceeded", "QuotaExceededError", "peer", True, False),
    ("read-only", "ReadOnlyError", "peer", True, False),
    ("reader-stalled", "ReaderStalledError", "peer", True, False),
    ("record-too-large", "RecordTooLargeError", "caller", False, False),
    ("recovery-incomplete", "RecoveryIncompleteError", "peer", True, False),
    ("refused", "RefusedError", "caller", False, False),
    ("sequence-gap", "SequenceGapError", "caller", False, False),
    ("session-lost", "SessionLostError", "peer", False, False),
    ("store-fenced", "StoreFencedError", "peer", False, True),
    ("stream-exists", "StreamExistsError", "caller", False, False),
    ("stream-idle", "StreamIdleError", "peer", True, False),
    ("stream-lost", "StreamLostError", "peer", False, True),
    ("stream-sealed", "StreamSealedError", "caller", False, False),
    ("subscription-lost", "SubscriptionLostError", "peer", False, True),
    ("too-many-requests", "TooManyRequestsError", "peer", True, False),
    ("truncated", "TruncatedError", "caller", False, False),
    ("txid-out-of-order", "TxidOutOfOrderError", "caller", False, False),
    ("unauthorized", "UnauthorizedError", "caller", False, False),
    ("unavailable", "UnavailableError", "peer", True, False),
    ("unknown-outcome", "UnknownOutcomeError", "peer", False, True),
    ("unknown-state", "UnknownStateError", "peer", True, False),
    ("wrong-cluster", "WrongClusterError", "caller", False, False),
    ("wrong-port", "WrongPortError", "caller", False, False),
]
"""Codes are on the wire and in JSON output, and programs act by the other attributes."""


def test_codes_and_what_programs_read_from_an_error_do_not_change() -> None:
    described = [
        (code, cls.__name__, cls.blame, cls.retryable, cls.refresh) for code, cls in CLASSES
    ]
    assert described == STABLE


def test_errors_carry_what_the_caller_needs_next() -> None:
    assert str(TruncatedError("below")) == "below"
    assert TruncatedError("below").first_active is None
    assert TruncatedError("below", Dlsn(2, 0, 0)).first_active == Dlsn(2, 0, 0)
    assert (str(OverRateError("slow")), OverRateError("slow").retry_after_ms) == ("slow", 0)
    assert OverRateError("slow", 250).retry_after_ms == 250
    assert (str(NotOwnerError("other")), NotOwnerError("other").owner) == ("other", "")
    assert NotOwnerError("other", "p1:80").owner == "p1:80"


def test_a_subclass_of_another_module_has_no_code_of_its_own() -> None:
    class ElsewhereError(TruncatedError):
        pass

    assert ElsewhereError in TruncatedError.__subclasses__()
    assert error_classes()["truncated"] is TruncatedError
