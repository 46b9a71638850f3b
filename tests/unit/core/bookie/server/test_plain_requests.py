import pytest

from rhumbline.core.bookie.server.plain_requests import judge_plain_requests
from rhumbline.core.runtime.primitives.transport_security import PASS, WAIT, FirstStep
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import handshake, v2, v3
from rhumbline.core.wire.frames import LENGTH

KEY = bytes(20)
ENTRY = v2.encode_read(7, 3)[LENGTH.size :] * 8
START_TLS = v3.frame(v3.start_tls_request(9))


def response3(response: bytes) -> pb.Response:
    return v3.decode_response(response[LENGTH.size :])


@pytest.mark.parametrize("is_required", [True, False])
def test_start_tls_is_confirmed_in_the_form_of_apache(is_required: bool) -> None:
    for stop in range(len(START_TLS)):
        assert judge_plain_requests(START_TLS[:stop], is_tls_required=is_required) is WAIT
    verdict = judge_plain_requests(START_TLS, is_tls_required=is_required)
    assert verdict.step is FirstStep.UPGRADE
    response = response3(verdict.response)
    assert response.status == pb.EOK
    assert response.header.txn_id == 9
    assert response.HasField("start_tls_response")


@pytest.mark.parametrize("is_required", [True, False])
def test_nothing_may_follow_start_tls_before_its_response(is_required: bool) -> None:
    injected = START_TLS + v2.encode_read(1, 1)
    verdict = judge_plain_requests(injected, is_tls_required=is_required)
    assert verdict.step is FirstStep.REFUSE
    assert verdict.response == b""


@pytest.mark.parametrize("request_", [v2.encode_read(7, 3), v3.frame(v3.read_request(5, 7, 3))])
def test_requests_pass_unless_tls_is_required(request_: bytes) -> None:
    assert judge_plain_requests(request_, is_tls_required=False) is PASS


def test_v2_requests_are_refused_with_code_102() -> None:
    verdict = judge_plain_requests(v2.encode_read(7, 3), is_tls_required=True)
    assert verdict.step is FirstStep.REFUSE
    response = v2.decode_response(verdict.response[LENGTH.size :])
    assert isinstance(response, v2.ReadResponse)
    assert (response.code, response.ledger_id, response.entry_id) == (102, 7, 3)
    batch = v2.encode_batch_read(7, 3, 5, count_max=1, bytes_max=100)
    verdict = judge_plain_requests(batch, is_tls_required=True)
    found = v2.decode_response(verdict.response[LENGTH.size :])
    assert isinstance(found, v2.BatchReadResponse)
    assert (found.code, found.request_id) == (102, 5)


def test_v3_requests_are_refused_with_eua() -> None:
    verdict = judge_plain_requests(v3.frame(v3.read_request(5, 7, 3)), is_tls_required=True)
    assert verdict.step is FirstStep.REFUSE
    assert response3(verdict.response).status == pb.EUA


def test_a_rhumbline_client_is_told_to_use_tls() -> None:
    hello = v2.encode_auth(handshake.PLUGIN, handshake.encode_hello("b1@0000002a"))  # type: ignore[arg-type]
    verdict = judge_plain_requests(hello, is_tls_required=True)
    response = v2.decode_response(verdict.response[LENGTH.size :])
    assert isinstance(response, v2.AuthResponse)
    with pytest.raises(Exception, match="refuses connections without TLS"):
        handshake.check_response(response.plugin, response.payload, "b1@0000002a")  # type: ignore[arg-type]


def test_large_frames_are_refused_before_they_arrive_and_garbage_silently() -> None:
    large = LENGTH.pack(1 << 20)
    assert judge_plain_requests(large, is_tls_required=True).step is FirstStep.REFUSE
    assert judge_plain_requests(large, is_tls_required=False) is PASS
    garbage = LENGTH.pack(3) + b"\x02\x63\x00"
    assert judge_plain_requests(garbage, is_tls_required=True).step is FirstStep.REFUSE
    assert judge_plain_requests(garbage, is_tls_required=False) is PASS
    no_proto = LENGTH.pack(3) + b"\x0a\xff\xff"
    assert judge_plain_requests(no_proto, is_tls_required=True).step is FirstStep.REFUSE
    assert judge_plain_requests(no_proto, is_tls_required=False) is PASS
