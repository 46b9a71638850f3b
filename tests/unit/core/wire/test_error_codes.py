"""Codes and errors map both ways, and only proven absence is sent as a "no"."""

import pytest

from rhumbline.core.protocol.errors import (
    ClosedError,
    CorruptionError,
    DiskFailedError,
    DiskFullError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ReadOnlyError,
    RhumblineError,
    UnauthorizedError,
    UnknownStateError,
    error_classes,
)
from rhumbline.core.wire.error_codes import code_for, error_of_code, error_of_status, status_for
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status

every_error = pytest.mark.parametrize("kind", list(error_classes().values()))


def test_the_two_enums_have_the_same_names() -> None:
    assert [code.name for code in Code] == [status.name for status in Status]


@pytest.mark.parametrize("name", [code.name for code in Code])
def test_v2_and_v3_map_each_code_to_the_same_error(name: str) -> None:
    meaning = error_of_code(Code[name])
    assert meaning is error_of_status(Status[name])
    assert (meaning is None) == (name == "OK")


@pytest.mark.parametrize("name", [code.name for code in Code if code.name not in ("OK", "IO")])
def test_the_error_of_a_status_is_sent_as_that_status(name: str) -> None:
    meaning = error_of_status(Status[name])
    assert meaning is not None
    if name != "BAD_VERSION":  # no error is sent as BAD_VERSION
        assert status_for(meaning("x")) is Status[name]


@every_error
def test_every_error_has_a_code_and_a_status(kind: type[RhumblineError]) -> None:
    error = kind("x")
    code, status = code_for(error), status_for(error)
    assert code is not Code.OK
    assert code is not Code.UNKNOWN_STATE  # a Java v2 client closes the connection on it
    assert status.name == code.name or (status is Status.UNKNOWN_STATE and code is Code.IO)


@every_error
def test_only_proofs_are_sent_as_a_no(kind: type[RhumblineError]) -> None:
    is_no = code_for(kind("x")) in (Code.NO_LEDGER, Code.NO_ENTRY)
    assert is_no == issubclass(kind, NoSuchLedgerError | NoSuchEntryError)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (LedgerFencedError, Code.FENCED),
        (UnauthorizedError, Code.UNAUTHORIZED),
        (ReadOnlyError, Code.READ_ONLY),
        (DiskFullError, Code.READ_ONLY),
        (DiskFailedError, Code.IO),
        (CorruptionError, Code.IO),
        (UnknownStateError, Code.IO),
        (ClosedError, Code.IO),
    ],
)
def test_codes_that_safety_depends_on(kind: type[RhumblineError], code: Code) -> None:
    assert code_for(kind("x")) is code


@pytest.mark.parametrize("number", [-1, 3, 99, 108, 402_000])
def test_an_unknown_number_is_never_a_no(number: int) -> None:
    assert error_of_code(number) is UnknownStateError
    assert error_of_status(number) is UnknownStateError
