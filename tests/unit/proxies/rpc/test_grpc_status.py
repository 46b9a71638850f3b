"""Every error class has a gRPC status and survives the round trip."""

import grpc
import pytest

from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    NotOwnerError,
    OverRateError,
    ProtocolError,
    QuotaExceededError,
    RefusedError,
    RhumblineError,
    TruncatedError,
    UnavailableError,
    error_classes,
)
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.grpc_status import (
    decode_details,
    decode_error,
    encode_details,
    encode_error,
    error_of_status,
    status_name,
)


@pytest.mark.parametrize("cls", error_classes().values(), ids=lambda cls: cls.__name__)
def test_every_error_has_a_status_and_survives_the_round_trip(cls: type[RhumblineError]) -> None:
    error = cls("what happened")
    code = grpc.StatusCode[status_name(error)]
    assert code is not grpc.StatusCode.OK
    back = decode_details(encode_details(error, code.value[0]))
    assert type(back) is cls
    assert str(back) == "what happened"


@pytest.mark.parametrize("code", grpc.StatusCode, ids=lambda code: code.name)
def test_every_status_maps_to_an_error(code: grpc.StatusCode) -> None:
    if code is grpc.StatusCode.OK:
        with pytest.raises(KeyError):
            error_of_status(code.name, "")
    else:
        assert str(error_of_status(code.name, "")) == code.name


def test_retryable_errors_have_no_final_status_for_plain_grpc_clients() -> None:
    final = {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "DATA_LOSS", "PERMISSION_DENIED"}
    for cls in error_classes().values():
        if cls.retryable:
            assert status_name(cls("")) not in final


def test_details_survive_the_round_trip() -> None:
    moved = decode_error(encode_error(NotOwnerError("moved", "host:1")))
    assert isinstance(moved, NotOwnerError) and moved.owner == "host:1"
    slow = decode_error(encode_error(OverRateError("slow", 70)))
    assert isinstance(slow, OverRateError) and slow.retry_after_ms == 70
    full = decode_error(encode_error(QuotaExceededError("full", 80)))
    assert isinstance(full, QuotaExceededError) and full.retry_after_ms == 80
    gone = decode_error(encode_error(TruncatedError("gone", Dlsn(3, 4, 5))))
    assert isinstance(gone, TruncatedError) and gone.first_active == Dlsn(3, 4, 5)


def test_unknown_code_keeps_its_retryability() -> None:
    assert type(decode_error(pb.Error(code="new", retryable=True))) is UnavailableError
    assert type(decode_error(pb.Error(code="new"))) is RefusedError


def test_garbage_raises_a_typed_error() -> None:
    with pytest.raises(ProtocolError):
        decode_details(b"\xff\xff\xff")
    assert decode_details(b"") is None
